// The Maven client in a process of its own, driven by JSON lines; ../python_client.py says what they look like.
// Started as a single source file. JSON is read and written by the library that the client's own jar carries.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.apache.pulsar.client.api.CompressionType;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.ConsumerBuilder;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.MessageIdAdv;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.ProducerBuilder;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.Reader;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.shade.com.fasterxml.jackson.databind.JsonNode;
import org.apache.pulsar.shade.com.fasterxml.jackson.databind.ObjectMapper;

public class Client {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, PulsarClient> CLIENTS = new ConcurrentHashMap<>();
    private static final Map<String, Producer<byte[]>> PRODUCERS = new ConcurrentHashMap<>();
    private static final Map<String, Consumer<byte[]>> CONSUMERS = new ConcurrentHashMap<>();
    private static final Map<String, Reader<byte[]>> READERS = new ConcurrentHashMap<>();
    private static final Map<String, MessageId> RECEIVED = new ConcurrentHashMap<>(); // by "consumer/message id"
    private static PrintStream output;

    public static void main(String[] arguments) throws Exception {
        output = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        ExecutorService worker = Executors.newSingleThreadExecutor();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            JsonNode request = JSON.readTree(line);
            worker.execute(() -> perform(request));
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
            case "producer" -> PRODUCERS.put(name, producer(request));
            case "send" -> { return send(PRODUCERS.get(name), request.get("texts"), request.get("properties")); }
            case "consumer" -> CONSUMERS.put(name, consumer(name, request));
            case "reader" -> READERS.put(name, reader(name, request));
            case "has_more" -> { return READERS.get(name).hasMessageAvailable(); }
            case "ack" -> {
                for (MessageId id : received(request)) {
                    CONSUMERS.get(name).acknowledge(id);
                }
            }
            case "nack" -> received(request).forEach(CONSUMERS.get(name)::negativeAcknowledge);
            case "seek" -> CONSUMERS.get(name).seek(
                text(request, "message", "").equals("Earliest") ? MessageId.earliest : received(request).get(0));
            case "partitions" -> { return client(request).getPartitionsForTopic(request.get("topic").asText(), true).get(); }
            case "close" -> close(name);
            default -> throw new IllegalArgumentException(request.toString());
        }
        return null;
    }

    private static Producer<byte[]> producer(JsonNode request) throws PulsarClientException {
        ProducerBuilder<byte[]> builder = client(request).newProducer()
            .topic(request.get("topic").asText())
            .compressionType(CompressionType.valueOf(text(request, "compression", "NONE")))
            .enableBatching(request.has("batch"));
        if (request.has("batch")) {
            builder.batchingMaxMessages(request.get("batch").asInt()).batchingMaxPublishDelay(60, TimeUnit.SECONDS);
        }
        if (request.has("partitions_interval")) {
            builder.autoUpdatePartitionsInterval(request.get("partitions_interval").asInt(), TimeUnit.SECONDS);
        }
        return builder.create();
    }

    private static List<String> send(Producer<byte[]> producer, JsonNode texts, JsonNode properties) throws Exception {
        List<CompletableFuture<MessageId>> sent = new ArrayList<>();
        for (int i = 0; i < texts.size(); i++) {
            byte[] payload = texts.get(i).asText().getBytes(StandardCharsets.UTF_8);
            sent.add(producer.newMessage().value(payload).properties(pairs(properties.get(i))).sendAsync());
        }
        producer.flush();
        List<String> ids = new ArrayList<>();
        for (CompletableFuture<MessageId> each : sent) {
            ids.add(id(each.get()));
        }
        return ids;
    }

    private static Consumer<byte[]> consumer(String name, JsonNode request) throws PulsarClientException {
        ConsumerBuilder<byte[]> builder = client(request).newConsumer()
            .subscriptionName(request.get("subscription").asText())
            .subscriptionType(SubscriptionType.valueOf(text(request, "type", "Exclusive")))
            .subscriptionInitialPosition(SubscriptionInitialPosition.valueOf(text(request, "position", "Latest")))
            .negativeAckRedeliveryDelay(request.path("nack_delay_ms").asInt(60_000), TimeUnit.MILLISECONDS)
            .messageListener((consumer, message) -> arrived(name, message));
        if (request.has("partitions_interval")) {
            builder.autoUpdatePartitionsInterval(request.get("partitions_interval").asInt(), TimeUnit.SECONDS);
        }
        if (request.has("subscription_properties")) {
            builder.subscriptionProperties(pairs(request.get("subscription_properties")));
        }
        if (request.has("pattern")) {
            builder.topicsPattern(Pattern.compile(request.get("pattern").asText()))
                .patternAutoDiscoveryPeriod(request.path("discovery_period").asInt(60), TimeUnit.SECONDS);
        } else {
            builder.topic(request.get("topic").asText());
        }
        return builder.subscribe();
    }

    private static Reader<byte[]> reader(String name, JsonNode request) throws PulsarClientException {
        return client(request).newReader()
            .topic(request.get("topic").asText())
            .startMessageId(request.get("position").asText().equals("Earliest") ? MessageId.earliest : MessageId.latest)
            .readerListener((reader, message) -> arrived(name, message))
            .create();
    }

    private static void close(String name) throws Exception {
        for (Map<String, ? extends AutoCloseable> things : List.of(PRODUCERS, CONSUMERS, READERS)) {
            AutoCloseable thing = things.remove(name);
            if (thing != null) {
                thing.close();
            }
        }
    }

    private static void arrived(String name, Message<byte[]> message) {
        String id = id(message.getMessageId());
        RECEIVED.put(name + "/" + id, message.getMessageId());
        tell(Map.of("to", name, "message", Map.of(
            "id", id,
            "topic", message.getTopicName(),
            "text", new String(message.getData(), StandardCharsets.UTF_8),
            "redelivered", message.getRedeliveryCount())));
    }

    private static List<MessageId> received(JsonNode request) {
        String name = request.get("name").asText();
        List<MessageId> ids = new ArrayList<>();
        if (request.has("message")) {
            ids.add(RECEIVED.get(name + "/" + request.get("message").asText()));
        }
        request.path("messages").forEach(id -> ids.add(RECEIVED.get(name + "/" + id.asText())));
        return ids;
    }

    private static PulsarClient client(JsonNode request) {
        return CLIENTS.get(request.get("client").asText());
    }

    private static Map<String, String> pairs(JsonNode object) {
        Map<String, String> pairs = new LinkedHashMap<>();
        object.fields().forEachRemaining(field -> pairs.put(field.getKey(), field.getValue().asText()));
        return pairs;
    }

    private static String text(JsonNode request, String key, String otherwise) {
        return request.path(key).asText(otherwise);
    }

    private static String id(MessageId id) {
        MessageIdAdv parts = (MessageIdAdv) id;
        return parts.getLedgerId() + ":" + parts.getEntryId() + ":" + parts.getPartitionIndex() + ":" + parts.getBatchIndex();
    }
}
