// The driver of Apache Pulsar's Java client. It reads requests as JSON lines, gives each a thread, and prints an answer for each;
// whatever its user would see comes as an event. docs/drivers.md describes the lines, the verbs and their arguments.
// JSON is read and written by the library that the client's own jar carries.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.regex.Pattern;
import org.apache.pulsar.PulsarVersion;
import org.apache.pulsar.client.api.AuthenticationFactory;
import org.apache.pulsar.client.api.BatcherBuilder;
import org.apache.pulsar.client.api.ClientBuilder;
import org.apache.pulsar.client.api.CompressionType;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.ConsumerBuilder;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.ProducerAccessMode;
import org.apache.pulsar.client.api.ProducerBuilder;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.Reader;
import org.apache.pulsar.client.api.ReaderBuilder;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.api.TypedMessageBuilder;
import org.apache.pulsar.shade.com.fasterxml.jackson.databind.JsonNode;
import org.apache.pulsar.shade.com.fasterxml.jackson.databind.ObjectMapper;

public class Driver {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static PrintStream output;

    private final Map<String, Verb> verbs = new TreeMap<>();
    private final Map<String, Producer<byte[]>> producers = new ConcurrentHashMap<>();
    private final Map<String, Consumer<byte[]>> consumers = new ConcurrentHashMap<>();
    private final Map<String, Reader<byte[]>> readers = new ConcurrentHashMap<>();
    private final Map<String, Message<byte[]>> messages = new ConcurrentHashMap<>(); // by "consumer/number"
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

        int number(String key, int otherwise) {
            return all.path(key).asInt(otherwise);
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
        verbs.put("reader", this::reader);
        verbs.put("take", this::take);
        verbs.put("acknowledge", this::acknowledge);
        verbs.put("negative_acknowledge", this::negativeAcknowledge);
        verbs.put("seek", this::seek);
        verbs.put("unsubscribe", this::unsubscribe);
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
            "protocol", 1, "client", "pulsar-client", "version", PulsarVersion.getVersion(), "language", "Java",
            "capabilities", List.of(
                "pattern-consumers", "pattern-hash", "pattern-watch", "pattern-reconcile", "partition-polling", "chunks", "without-flags"),
            "verbs", verbs.keySet());
    }

    private Object begin(Arguments arguments) {
        url = arguments.text("service_url");
        return null;
    }

    private synchronized Object end(Arguments arguments) throws Exception {
        if (client != null) {
            client.shutdown();
        }
        client = null;
        producers.clear();
        consumers.clear();
        readers.clear();
        messages.clear();
        return null;
    }

    private synchronized Object start(Arguments arguments) throws Exception {
        arguments.only("operation_timeout_ms", "keep_alive_ms", "listener_name", "token");
        ClientBuilder builder = PulsarClient.builder()
            .serviceUrl(url)
            .operationTimeout(arguments.number("operation_timeout_ms", 30_000), TimeUnit.MILLISECONDS)
            .keepAliveInterval(arguments.number("keep_alive_ms", 30_000), TimeUnit.MILLISECONDS);
        if (arguments.has("listener_name")) {
            builder.listenerName(arguments.text("listener_name"));
        }
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
        arguments.only("name", "topic", "batch", "compression", "access", "as", "chunks", "send_timeout_ms", "partitions_interval_ms");
        ProducerBuilder<byte[]> builder = client().newProducer()
            .topic(arguments.text("topic"))
            .compressionType(CompressionType.valueOf(arguments.text("compression", "NONE")))
            .accessMode(ProducerAccessMode.valueOf(arguments.text("access", "Shared")))
            .sendTimeout(arguments.number("send_timeout_ms", 30_000), TimeUnit.MILLISECONDS)
            .enableBatching(arguments.has("batch"))
            .enableChunking(arguments.all().path("chunks").asBoolean());
        if (arguments.has("as")) {
            builder.producerName(arguments.text("as"));
        }
        if (arguments.has("batch")) {
            JsonNode batch = arguments.all().get("batch");
            builder.batchingMaxMessages(batch.path("messages").asInt(1000))
                .batchingMaxBytes(batch.path("bytes").asInt(128 * 1024))
                .batchingMaxPublishDelay(batch.path("delay_ms").asInt(60_000), TimeUnit.MILLISECONDS)
                .batcherBuilder(batch.path("key_based").asBoolean() ? BatcherBuilder.KEY_BASED : BatcherBuilder.DEFAULT);
        }
        builder.autoUpdatePartitionsInterval(seconds(arguments, "partitions_interval_ms"), TimeUnit.SECONDS);
        producers.put(arguments.text("name"), builder.create());
        return null;
    }

    private Object send(Arguments arguments) throws Exception {
        arguments.only("producer", "texts", "properties", "keys", "event_times", "sequence_ids", "deliver_after_ms", "flush");
        Producer<byte[]> producer = producers.get(arguments.text("producer"));
        JsonNode texts = arguments.all().get("texts");
        List<CompletableFuture<MessageId>> sent = new ArrayList<>();
        for (int i = 0; i < texts.size(); i++) {
            TypedMessageBuilder<byte[]> message = producer.newMessage()
                .value(texts.get(i).asText().getBytes(StandardCharsets.UTF_8))
                .properties(pairs(arguments.all().path("properties").path(i)));
            if (arguments.all().path("keys").path(i).isTextual()) {
                message.key(arguments.all().get("keys").get(i).asText());
            }
            if (arguments.has("event_times")) {
                message.eventTime(arguments.all().get("event_times").get(i).asLong());
            }
            if (arguments.has("sequence_ids")) {
                message.sequenceId(arguments.all().get("sequence_ids").get(i).asLong());
            }
            if (arguments.has("deliver_after_ms")) {
                message.deliverAfter(arguments.number("deliver_after_ms", 0), TimeUnit.MILLISECONDS);
            }
            sent.add(message.sendAsync());
        }
        if (!arguments.all().path("flush").asBoolean(true)) {
            return null;
        }
        producer.flush();
        List<String> ids = new ArrayList<>();
        for (CompletableFuture<MessageId> each : sent) {
            ids.add(each.get().toString());
        }
        return Map.of("ids", ids);
    }

    private Object consumer(Arguments arguments) throws Exception {
        arguments.only(
            "name", "subscription", "topic", "pattern", "type", "position", "queue", "as", "nack_delay_ms", "discovery_ms",
            "partitions_interval_ms", "takes");
        String name = arguments.text("name");
        ConsumerBuilder<byte[]> builder = client().newConsumer()
            .subscriptionName(arguments.text("subscription", "s"))
            .subscriptionType(SubscriptionType.valueOf(arguments.text("type", "Exclusive")))
            .subscriptionInitialPosition(SubscriptionInitialPosition.valueOf(arguments.text("position", "Latest")))
            .receiverQueueSize(arguments.number("queue", 1000))
            .negativeAckRedeliveryDelay(arguments.number("nack_delay_ms", 60_000), TimeUnit.MILLISECONDS)
            .autoUpdatePartitionsInterval(seconds(arguments, "partitions_interval_ms"), TimeUnit.SECONDS);
        if (!arguments.has("takes")) {
            builder.messageListener((consumer, message) -> arrived(name, message));
        }
        if (arguments.has("as")) {
            builder.consumerName(arguments.text("as"));
        }
        if (arguments.has("pattern")) {
            builder.topicsPattern(Pattern.compile(arguments.text("pattern")))
                .patternAutoDiscoveryPeriod(seconds(arguments, "discovery_ms"), TimeUnit.SECONDS);
        } else {
            builder.topic(arguments.text("topic"));
        }
        Consumer<byte[]> made = builder.subscribe();
        consumers.put(name, made);
        if (arguments.has("takes")) {
            takeSome(name, made::receive, arguments.number("takes", 0));
        }
        return null;
    }

    private Object reader(Arguments arguments) throws Exception {
        arguments.only("name", "topic", "position", "takes");
        String name = arguments.text("name");
        ReaderBuilder<byte[]> builder = client().newReader()
            .topic(arguments.text("topic"))
            .startMessageId(arguments.text("position", "Latest").equals("Earliest") ? MessageId.earliest : MessageId.latest);
        if (!arguments.has("takes")) {
            builder.readerListener((reader, message) -> arrived(name, message));
        }
        Reader<byte[]> made = builder.create();
        readers.put(name, made);
        if (arguments.has("takes")) {
            takeSome(name, made::readNext, arguments.number("takes", 0));
        }
        return null;
    }

    /** Take so many messages, and no more until `take`. */
    private void takeSome(String name, Callable<Message<byte[]>> receive, int count) {
        CountDownLatch goingOn = new CountDownLatch(1);
        waiting.put(name, goingOn);
        Thread taking = new Thread(() -> {
            try {
                for (int number = 0; ; number++) {
                    if (number == count) {
                        goingOn.await();
                    }
                    arrived(name, receive.call());
                }
            } catch (Exception closed) {
                System.err.println(name + " receives no more: " + closed);
            }
        });
        taking.setDaemon(true);
        taking.start();
    }

    private Object take(Arguments arguments) {
        waiting.get(arguments.text("consumer")).countDown();
        return null;
    }

    private Object acknowledge(Arguments arguments) throws Exception {
        Consumer<byte[]> consumer = consumers.get(arguments.text("consumer"));
        if (arguments.all().path("cumulative").asBoolean()) {
            consumer.acknowledgeCumulative(message(arguments, "message"));
        } else {
            consumer.acknowledge(message(arguments, "message"));
        }
        return null;
    }

    private Object negativeAcknowledge(Arguments arguments) {
        consumers.get(arguments.text("consumer")).negativeAcknowledge(message(arguments, "message"));
        return null;
    }

    private Object seek(Arguments arguments) throws PulsarClientException {
        MessageId to = switch (arguments.text("to")) {
            case "Earliest" -> MessageId.earliest;
            case "Latest" -> MessageId.latest;
            default -> message(arguments, "to").getMessageId();
        };
        Reader<byte[]> reader = readers.get(arguments.text("consumer"));
        if (reader != null) {
            reader.seek(to);
        } else {
            consumers.get(arguments.text("consumer")).seek(to);
        }
        return null;
    }

    private Object unsubscribe(Arguments arguments) throws PulsarClientException {
        consumers.remove(arguments.text("consumer")).unsubscribe();
        return null;
    }

    private Object close(Arguments arguments) throws Exception {
        for (Map<String, ? extends AutoCloseable> things : List.of(producers, consumers, readers)) {
            AutoCloseable thing = things.remove(arguments.text("name"));
            if (thing != null) {
                thing.close();
            }
        }
        return null;
    }

    private void arrived(String consumer, Message<byte[]> message) {
        String number = String.valueOf(numbers.incrementAndGet());
        messages.put(consumer + "/" + number, message);
        say(Map.of("event", "message", "detail", Map.of(
            "consumer", consumer,
            "message", number,
            "topic", message.getTopicName(),
            "text", new String(message.getData(), StandardCharsets.UTF_8),
            "properties", message.getProperties(),
            "redelivered", message.getRedeliveryCount())));
    }

    private Message<byte[]> message(Arguments arguments, String key) {
        return messages.get(arguments.text("consumer") + "/" + arguments.text(key));
    }

    /** The client takes whole seconds, at least one. */
    private static int seconds(Arguments arguments, String key) {
        return Math.max(1, arguments.number(key, 60_000) / 1000);
    }

    private static Map<String, String> pairs(JsonNode object) {
        Map<String, String> pairs = new LinkedHashMap<>();
        object.fields().forEachRemaining(field -> pairs.put(field.getKey(), field.getValue().asText()));
        return pairs;
    }
}
