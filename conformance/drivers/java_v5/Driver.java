// The driver of Apache Pulsar's Java client for scalable topics. It reads requests as JSON lines, gives each a thread, and prints an
// answer for each; whatever its user would see comes as an event. docs/drivers.md describes the lines, the verbs and their arguments.
// JSON is read and written by a library that the client needs itself.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.pulsar.PulsarVersion;
import org.apache.pulsar.client.api.v5.Message;
import org.apache.pulsar.client.api.v5.MessageId;
import org.apache.pulsar.client.api.v5.Producer;
import org.apache.pulsar.client.api.v5.ProducerBuilder;
import org.apache.pulsar.client.api.v5.PulsarClient;
import org.apache.pulsar.client.api.v5.PulsarClientBuilder;
import org.apache.pulsar.client.api.v5.PulsarClientException;
import org.apache.pulsar.client.api.v5.QueueConsumer;
import org.apache.pulsar.client.api.v5.QueueConsumerBuilder;
import org.apache.pulsar.client.api.v5.auth.AuthenticationFactory;
import org.apache.pulsar.client.api.v5.config.BackoffPolicy;
import org.apache.pulsar.client.api.v5.config.BatchingPolicy;
import org.apache.pulsar.client.api.v5.config.CompressionPolicy;
import org.apache.pulsar.client.api.v5.config.CompressionType;
import org.apache.pulsar.client.api.v5.config.ConnectionPolicy;
import org.apache.pulsar.client.api.v5.config.MemorySize;
import org.apache.pulsar.client.api.v5.config.ProducerAccessMode;
import org.apache.pulsar.client.api.v5.config.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.v5.schema.Schema;

public class Driver {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static PrintStream output;

    private final Map<String, Verb> verbs = new TreeMap<>();
    private final Map<String, Producer<byte[]>> producers = new ConcurrentHashMap<>();
    private final Map<String, QueueConsumer<byte[]>> consumers = new ConcurrentHashMap<>();
    private final Map<String, MessageId> messages = new ConcurrentHashMap<>(); // by "consumer/number"
    private final Map<String, CountDownLatch> waiting = new ConcurrentHashMap<>(); // until `take`
    private final AtomicLong numbers = new AtomicLong();
    private String url = "";
    private volatile String token = "";
    private PulsarClient client;

    private interface Verb {
        Object perform(Arguments arguments) throws Exception;
    }

    private static class Unsupported extends RuntimeException {
        Unsupported(String what) {
            super(what);
        }
    }

    /** The arguments of a request. What the driver does not ask for is something that this client does not offer. */
    private record Arguments(JsonNode all) {
        boolean has(String key) {
            return all.has(key);
        }

        String text(String key) {
            return all.path(key).asText();
        }

        String text(String key, String otherwise) {
            return all.path(key).asText(otherwise);
        }

        Duration time(String key, long otherwise) {
            return Duration.ofMillis(all.path(key).asLong(otherwise));
        }

        void only(String... known) {
            Set<String> unknown = new TreeSet<>();
            all.fieldNames().forEachRemaining(unknown::add);
            unknown.removeAll(Set.of("id", "do"));
            unknown.removeAll(Set.of(known));
            if (!unknown.isEmpty()) {
                throw new Unsupported("option " + String.join(", ", unknown));
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        output = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err); // whatever else is printed does not get among the lines
        Driver driver = new Driver();
        ExecutorService workers = Executors.newCachedThreadPool();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            JsonNode request = JSON.readTree(line);
            workers.execute(() -> driver.perform(request));
        }
        Runtime.getRuntime().halt(0);
    }

    private static synchronized void say(Object line) {
        try {
            output.println(JSON.writeValueAsString(line));
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    private Driver() {
        verbs.put("begin", this::begin);
        verbs.put("end", this::end);
        verbs.put("start", this::start);
        verbs.put("refresh", this::refresh);
        verbs.put("producer", this::producer);
        verbs.put("send", this::send);
        verbs.put("consumer", this::consumer);
        verbs.put("take", this::take);
        verbs.put("acknowledge", this::acknowledge);
        verbs.put("negative_acknowledge", this::negativeAcknowledge);
        verbs.put("close", this::close);
    }

    private void perform(JsonNode request) {
        JsonNode number = request.get("id");
        String name = request.path("do").asText();
        try {
            if (name.equals("hello")) {
                say(Map.of("id", number, "ok", true, "result", hello()));
            } else if (!verbs.containsKey(name)) {
                say(Map.of("id", number, "unsupported", name));
            } else {
                Object result = verbs.get(name).perform(new Arguments(request));
                say(result == null ? Map.of("id", number, "ok", true) : Map.of("id", number, "ok", true, "result", result));
            }
        } catch (Unsupported what) {
            say(Map.of("id", number, "unsupported", what.getMessage()));
        } catch (Throwable error) {
            error.printStackTrace();
            say(Map.of("id", number, "error", error.toString()));
        }
    }

    private Object hello() {
        return Map.of(
            "protocol", 1, "client", "pulsar-client-v5", "version", PulsarVersion.getVersion(), "language", "Java",
            "capabilities", List.of("namespace-consumers", "chunks"), "verbs", verbs.keySet());
    }

    private Object begin(Arguments arguments) {
        url = arguments.text("service_url");
        return null;
    }

    private synchronized Object end(Arguments arguments) {
        if (client != null) {
            client.shutdown();
        }
        client = null;
        producers.clear();
        consumers.clear();
        messages.clear();
        return null;
    }

    private synchronized Object start(Arguments arguments) throws Exception {
        arguments.only("operation_timeout_ms", "keep_alive_ms", "token");
        PulsarClientBuilder builder = PulsarClient.builder()
            .serviceUrl(url)
            .operationTimeout(arguments.time("operation_timeout_ms", 30_000))
            .connectionPolicy(ConnectionPolicy.builder().keepAliveInterval(arguments.time("keep_alive_ms", 30_000)).build());
        if (arguments.has("token")) {
            token = arguments.text("token");
            builder.authentication(AuthenticationFactory.token(() -> token));
        }
        client = builder.build();
        return null;
    }

    private Object refresh(Arguments arguments) {
        token = arguments.text("token");
        return null;
    }

    private synchronized PulsarClient client() throws Exception {
        if (client == null) {
            start(new Arguments(JSON.createObjectNode()));
        }
        return client;
    }

    private Object producer(Arguments arguments) throws Exception {
        arguments.only("name", "topic", "batch", "compression", "access", "as", "send_timeout_ms");
        String access = arguments.text("access", "Shared").replaceAll("([a-z])([A-Z])", "$1_$2").toUpperCase(Locale.ROOT);
        ProducerBuilder<byte[]> builder = client().newProducer(Schema.bytes())
            .topic(arguments.text("topic"))
            .compressionPolicy(CompressionPolicy.of(CompressionType.valueOf(arguments.text("compression", "NONE"))))
            .accessMode(ProducerAccessMode.valueOf(access))
            .sendTimeout(arguments.time("send_timeout_ms", 30_000))
            .batchingPolicy(batching(arguments.all().path("batch")));
        if (arguments.has("as")) {
            builder.producerName(arguments.text("as"));
        }
        producers.put(arguments.text("name"), builder.create());
        return null;
    }

    private static BatchingPolicy batching(JsonNode batch) {
        if (batch.isMissingNode()) {
            return BatchingPolicy.ofDisabled();
        }
        if (batch.path("key_based").asBoolean()) {
            throw new Unsupported("batches by key");
        }
        return BatchingPolicy.builder()
            .maxMessages(batch.path("messages").asInt(1000))
            .maxSize(MemorySize.ofBytes(batch.path("bytes").asInt(128 * 1024)))
            .maxPublishDelay(Duration.ofMillis(batch.path("delay_ms").asInt(60_000)))
            .build();
    }

    private Object send(Arguments arguments) throws Exception {
        arguments.only("producer", "texts", "properties", "keys", "event_times", "sequence_ids", "deliver_after_ms", "flush");
        Producer<byte[]> producer = producers.get(arguments.text("producer"));
        JsonNode texts = arguments.all().get("texts");
        List<CompletableFuture<MessageId>> sent = new ArrayList<>();
        for (int i = 0; i < texts.size(); i++) {
            var message = producer.async().newMessage()
                .value(texts.get(i).asText().getBytes(StandardCharsets.UTF_8))
                .properties(pairs(arguments.all().path("properties").path(i)));
            if (arguments.all().path("keys").path(i).isTextual()) {
                message.key(arguments.all().get("keys").get(i).asText());
            }
            if (arguments.has("event_times")) {
                message.eventTime(Instant.ofEpochMilli(arguments.all().get("event_times").get(i).asLong()));
            }
            if (arguments.has("sequence_ids")) {
                message.sequenceId(arguments.all().get("sequence_ids").get(i).asLong());
            }
            if (arguments.has("deliver_after_ms")) {
                message.deliverAfter(arguments.time("deliver_after_ms", 0));
            }
            sent.add(message.send());
        }
        if (!arguments.all().path("flush").asBoolean(true)) {
            return null;
        }
        producer.async().flush().get();
        List<String> ids = new ArrayList<>();
        for (CompletableFuture<MessageId> each : sent) {
            ids.add(each.get().toString());
        }
        return Map.of("ids", ids);
    }

    private Object consumer(Arguments arguments) throws Exception {
        arguments.only(
            "name", "subscription", "topic", "namespace", "property_filters", "type", "position", "queue", "as", "nack_delay_ms", "takes");
        if (!List.of("Exclusive", "Shared").contains(arguments.text("type", "Shared"))) {
            throw new Unsupported("type " + arguments.text("type"));
        }
        String name = arguments.text("name");
        Duration delay = arguments.time("nack_delay_ms", 60_000);
        QueueConsumerBuilder<byte[]> builder = client().newQueueConsumer(Schema.bytes())
            .subscriptionName(arguments.text("subscription", "s"))
            .subscriptionInitialPosition(SubscriptionInitialPosition.valueOf(arguments.text("position", "Latest").toUpperCase(Locale.ROOT)))
            .negativeAckRedeliveryBackoff(BackoffPolicy.exponential(delay, delay));
        if (arguments.has("queue")) {
            builder.receiverQueueSize(arguments.all().get("queue").asInt());
        }
        if (arguments.has("as")) {
            builder.consumerName(arguments.text("as"));
        }
        if (arguments.has("namespace")) {
            builder.namespace(arguments.text("namespace"), pairs(arguments.all().path("property_filters")));
        } else {
            builder.topic(arguments.text("topic"));
        }
        QueueConsumer<byte[]> made = builder.subscribe();
        consumers.put(name, made);
        CountDownLatch goingOn = new CountDownLatch(1);
        waiting.put(name, goingOn);
        int count = arguments.all().path("takes").asInt(-1);
        Thread receiving = new Thread(() -> receive(name, made, count, goingOn));
        receiving.setDaemon(true);
        receiving.start();
        return null;
    }

    /** Take messages: if `takes` says how many, no more than these until `take`. */
    private void receive(String name, QueueConsumer<byte[]> consumer, int count, CountDownLatch goingOn) {
        try {
            int taken = 0;
            while (consumers.get(name) == consumer) {
                if (taken == count) {
                    goingOn.await();
                }
                Message<byte[]> message = consumer.receive(Duration.ofSeconds(1));
                if (message != null) {
                    arrived(name, message);
                    taken++;
                }
            }
        } catch (Exception closed) {
            System.err.println(name + " receives no more: " + closed);
        }
    }

    private Object take(Arguments arguments) {
        waiting.get(arguments.text("consumer")).countDown();
        return null;
    }

    private Object acknowledge(Arguments arguments) {
        if (arguments.all().path("cumulative").asBoolean()) {
            throw new Unsupported("cumulative acknowledgement");
        }
        consumers.get(arguments.text("consumer")).acknowledge(message(arguments));
        return null;
    }

    private Object negativeAcknowledge(Arguments arguments) {
        consumers.get(arguments.text("consumer")).negativeAcknowledge(message(arguments));
        return null;
    }

    private Object close(Arguments arguments) throws Exception {
        for (Map<String, ? extends AutoCloseable> things : List.of(producers, consumers)) {
            AutoCloseable thing = things.remove(arguments.text("name"));
            if (thing != null) {
                thing.close();
            }
        }
        return null;
    }

    private void arrived(String consumer, Message<byte[]> message) {
        String number = String.valueOf(numbers.incrementAndGet());
        messages.put(consumer + "/" + number, message.id());
        say(Map.of("event", "message", "detail", Map.of(
            "consumer", consumer,
            "message", number,
            "topic", message.topic(),
            "text", new String(message.data(), StandardCharsets.UTF_8),
            "properties", message.properties(),
            "redelivered", message.redeliveryCount())));
    }

    private MessageId message(Arguments arguments) {
        return messages.get(arguments.text("consumer") + "/" + arguments.text("message"));
    }

    private static Map<String, String> pairs(JsonNode object) {
        Map<String, String> pairs = new LinkedHashMap<>();
        object.fields().forEachRemaining(field -> pairs.put(field.getKey(), field.getValue().asText()));
        return pairs;
    }
}
