// The Maven client for scalable topics in a process of its own, driven by JSON lines; ../python_client.py says what they look like.
// Started as a single source file. JSON is read and written by a library that the client needs itself.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.pulsar.client.api.v5.Message;
import org.apache.pulsar.client.api.v5.MessageId;
import org.apache.pulsar.client.api.v5.Producer;
import org.apache.pulsar.client.api.v5.ProducerBuilder;
import org.apache.pulsar.client.api.v5.PulsarClient;
import org.apache.pulsar.client.api.v5.QueueConsumer;
import org.apache.pulsar.client.api.v5.QueueConsumerBuilder;
import org.apache.pulsar.client.api.v5.config.BackoffPolicy;
import org.apache.pulsar.client.api.v5.config.ProducerAccessMode;
import org.apache.pulsar.client.api.v5.config.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.v5.schema.Schema;

public class Client {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, PulsarClient> CLIENTS = new ConcurrentHashMap<>();
    private static final Map<String, Producer<byte[]>> PRODUCERS = new ConcurrentHashMap<>();
    private static final Map<String, QueueConsumer<byte[]>> CONSUMERS = new ConcurrentHashMap<>();
    private static final Map<String, MessageId> RECEIVED = new ConcurrentHashMap<>();
    private static final AtomicLong NUMBERS = new AtomicLong();
    private static PrintStream output;

    public static void main(String[] arguments) throws Exception {
        output = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        ExecutorService worker = Executors.newSingleThreadExecutor();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            JsonNode request = JSON.readTree(line);
            if (request.has("aside")) { // it may take long
                new Thread(() -> perform(request)).start();
            } else {
                worker.execute(() -> perform(request));
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private static void perform(JsonNode request) {
        try {
            Object answer = answer(request);
            tell(answer == null ? Map.of("id", request.get("id")) : Map.of("id", request.get("id"), "answer", answer));
        } catch (Throwable error) {
            error.printStackTrace();
            tell(Map.of("id", request.get("id"), "error", error.toString()));
        }
    }

    private static synchronized void tell(Object line) {
        try {
            output.println(JSON.writeValueAsString(line));
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    private static Object answer(JsonNode request) throws Exception {
        String name = request.get("name").asText();
        switch (request.get("do").asText()) {
            case "connect" -> CLIENTS.put(name, PulsarClient.builder().serviceUrl(request.get("url").asText()).build());
            case "end" -> CLIENTS.remove(name).closeAsync();
            case "producer" -> PRODUCERS.put(
                name, producer(request));
            case "send" -> { return send(PRODUCERS.get(name), request); }
            case "consumer" -> CONSUMERS.put(name, consumer(name, request));
            case "ack" -> request.path("messages").forEach(id -> CONSUMERS.get(name).acknowledge(RECEIVED.get(id.asText())));
            case "nack" -> request.path("messages").forEach(id -> CONSUMERS.get(name).negativeAcknowledge(RECEIVED.get(id.asText())));
            case "close" -> close(name);
            default -> throw new IllegalArgumentException(request.toString());
        }
        return null;
    }

    private static Producer<byte[]> producer(JsonNode request) throws Exception {
        ProducerBuilder<byte[]> builder = client(request).newProducer(Schema.bytes())
            .topic(request.get("topic").asText())
            .accessMode(ProducerAccessMode.valueOf(request.path("access").asText("SHARED")
                .replaceAll("([a-z])([A-Z])", "$1_$2").toUpperCase(Locale.ROOT)));
        if (request.has("as")) {
            builder.producerName(request.get("as").asText());
        }
        return builder.create();
    }

    private static List<String> send(Producer<byte[]> producer, JsonNode request) throws Exception {
        List<String> ids = new ArrayList<>();
        for (int i = 0; i < request.get("texts").size(); i++) {
            JsonNode text = request.get("texts").get(i);
            var message = producer.newMessage().value(text.asText().getBytes(StandardCharsets.UTF_8));
            request.path("properties").path(i).fields().forEachRemaining(one -> message.property(one.getKey(), one.getValue().asText()));
            if (request.has("sequence_ids")) {
                message.sequenceId(request.get("sequence_ids").get(i).asLong());
            }
            if (request.has("after_ms")) {
                message.deliverAfter(Duration.ofMillis(request.get("after_ms").asLong()));
            }
            if (request.has("keys")) {
                message.key(request.get("keys").get(i).asText());
            }
            if (request.has("keyed")) { // each message is its own key
                message.key(text.asText());
            }
            ids.add(message.send().toString());
        }
        return ids;
    }

    private static QueueConsumer<byte[]> consumer(String name, JsonNode request) throws Exception {
        QueueConsumerBuilder<byte[]> builder = client(request).newQueueConsumer(Schema.bytes())
            .subscriptionName(request.get("subscription").asText())
            .subscriptionInitialPosition(SubscriptionInitialPosition.valueOf(request.path("position").asText("EARLIEST").toUpperCase(Locale.ROOT)));
        if (request.has("nack_delay_ms")) {
            Duration delay = Duration.ofMillis(request.get("nack_delay_ms").asLong());
            builder.negativeAckRedeliveryBackoff(BackoffPolicy.exponential(delay, delay.multipliedBy(4)));
        }
        if (request.has("namespace")) {
            Map<String, String> filters = new ConcurrentHashMap<>();
            request.path("filters").fields().forEachRemaining(filter -> filters.put(filter.getKey(), filter.getValue().asText()));
            builder.namespace(request.get("namespace").asText(), filters);
        } else {
            builder.topic(request.get("topic").asText());
        }
        QueueConsumer<byte[]> consumer = builder.subscribe();
        Thread receiving = new Thread(() -> receive(name, consumer));
        receiving.setDaemon(true);
        receiving.start();
        return consumer;
    }

    private static void receive(String name, QueueConsumer<byte[]> consumer) {
        try {
            while (true) {
                Message<byte[]> message = consumer.receive(Duration.ofSeconds(1));
                if (message != null) {
                    String id = "message-" + NUMBERS.incrementAndGet();
                    RECEIVED.put(id, message.id());
                    tell(Map.of("to", name, "message", Map.of(
                        "id", id,
                        "topic", message.topic(),
                        "text", new String(message.data(), StandardCharsets.UTF_8),
                        "redelivered", message.redeliveryCount())));
                } else if (CONSUMERS.get(name) == null && CLIENTS.isEmpty()) {
                    return;
                }
            }
        } catch (Exception closed) {
            System.err.println(name + " receives no more: " + closed);
        }
    }

    private static void close(String name) throws Exception {
        for (Map<String, ? extends AutoCloseable> things : List.of(PRODUCERS, CONSUMERS)) {
            AutoCloseable thing = things.remove(name);
            if (thing != null) {
                thing.close();
            }
        }
    }

    private static PulsarClient client(JsonNode request) {
        return CLIENTS.get(request.get("client").asText());
    }
}
