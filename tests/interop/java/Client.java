// The Maven client in a process of its own, driven by JSON lines; ../python_client.py says what they look like.
// Started as a single source file. JSON is read and written by the library that the client's own jar carries.

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
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
import org.apache.pulsar.client.api.AuthenticationFactory;
import org.apache.pulsar.client.api.ClientBuilder;
import org.apache.pulsar.client.api.CompressionType;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.ConsumerBuilder;
import org.apache.pulsar.client.api.ConsumerEventListener;
import org.apache.pulsar.client.api.DeadLetterPolicy;
import org.apache.pulsar.client.api.KeySharedPolicy;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.MessageIdAdv;
import org.apache.pulsar.client.api.MessageListener;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.ProducerAccessMode;
import org.apache.pulsar.client.api.ProducerBuilder;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.Range;
import org.apache.pulsar.client.api.Reader;
import org.apache.pulsar.client.api.ReaderBuilder;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.api.TypedMessageBuilder;
import org.apache.pulsar.client.api.schema.GenericRecord;
import org.apache.pulsar.client.api.schema.GenericSchema;
import org.apache.pulsar.common.schema.SchemaInfo;
import org.apache.pulsar.common.schema.SchemaType;
import org.apache.pulsar.shade.com.fasterxml.jackson.databind.JsonNode;
import org.apache.pulsar.shade.com.fasterxml.jackson.databind.ObjectMapper;

public class Client {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, PulsarClient> CLIENTS = new ConcurrentHashMap<>();
    private static final Map<String, Producer<?>> PRODUCERS = new ConcurrentHashMap<>();
    private static final Map<String, Consumer<?>> CONSUMERS = new ConcurrentHashMap<>();
    private static final Map<String, Reader<byte[]>> READERS = new ConcurrentHashMap<>();
    private static final Map<String, Message<?>> RECEIVED = new ConcurrentHashMap<>(); // by "consumer/message id"
    private static final Map<String, Schema<?>> SCHEMAS = new ConcurrentHashMap<>(); // of producers
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
            case "connect" -> CLIENTS.put(name, connect(request));
            case "end" -> CLIENTS.remove(name).closeAsync();
            case "producer" -> PRODUCERS.put(name, producer(request, schema(request)));
            case "send" -> { return send(PRODUCERS.get(name), request); }
            case "consumer" -> CONSUMERS.put(name, consumer(name, request, schema(request)));
            case "reader" -> READERS.put(name, reader(name, request));
            case "has_more" -> { return READERS.get(name).hasMessageAvailable(); }
            case "ack" -> {
                for (Message<?> message : received(request)) {
                    CONSUMERS.get(name).acknowledge(message);
                }
            }
            case "ack_cumulative" -> CONSUMERS.get(name).acknowledgeCumulative(received(request).get(0));
            case "unsubscribe" -> CONSUMERS.get(name).unsubscribe();
            case "nack" -> received(request).forEach(message -> CONSUMERS.get(name).negativeAcknowledge(message));
            case "later" -> {
                for (Message<?> message : received(request)) {
                    CONSUMERS.get(name).reconsumeLater(message, request.get("delay_ms").asLong(), TimeUnit.MILLISECONDS);
                }
            }
            case "seek" -> {
                if (request.has("time")) {
                    CONSUMERS.get(name).seek(request.get("time").asLong());
                    return null;
                }
                CONSUMERS.get(name).seek(
                    text(request, "message", "").equals("Earliest") ? MessageId.earliest : received(request).get(0).getMessageId());
            }
            case "partitions" -> { return client(request).getPartitionsForTopic(request.get("topic").asText(), true).get(); }
            case "close" -> close(name);
            default -> throw new IllegalArgumentException(request.toString());
        }
        return null;
    }

    private static PulsarClient connect(JsonNode request) throws PulsarClientException {
        ClientBuilder builder = PulsarClient.builder().serviceUrl(request.get("url").asText()).enableTransaction(request.has("transactions"));
        if (request.has("token_file")) {
            builder.authentication(AuthenticationFactory.token(() -> {
                try {
                    return Files.readString(Path.of(request.get("token_file").asText()));
                } catch (IOException error) {
                    throw new UncheckedIOException(error);
                }
            }));
        }
        return builder.build();
    }

    private static Schema<?> schema(JsonNode request) {
        Schema<?> schema = switch (text(request, "schema", "BYTES")) {
            case "BYTES" -> Schema.BYTES;
            case "AUTO_CONSUME" -> Schema.AUTO_CONSUME();
            case "AUTO_PRODUCE_BYTES" -> Schema.AUTO_PRODUCE_BYTES();
            default -> Schema.generic(SchemaInfo.builder()
                .name("").type(SchemaType.valueOf(request.get("schema").asText())).properties(Map.of())
                .schema(request.get("definition").asText().getBytes(StandardCharsets.UTF_8)).build());
        };
        SCHEMAS.put(request.get("name").asText(), schema);
        return schema;
    }

    private static <T> Producer<T> producer(JsonNode request, Schema<T> schema) throws PulsarClientException {
        ProducerBuilder<T> builder = client(request).newProducer(schema)
            .topic(request.get("topic").asText())
            .compressionType(CompressionType.valueOf(text(request, "compression", "NONE")))
            .accessMode(ProducerAccessMode.valueOf(text(request, "access", "Shared")))
            .enableBatching(request.has("batch"));
        if (request.has("as")) {
            builder.producerName(request.get("as").asText());
        }
        if (request.has("batch")) {
            builder.batchingMaxMessages(request.get("batch").asInt()).batchingMaxPublishDelay(60, TimeUnit.SECONDS);
        }
        if (request.has("partitions_interval")) {
            builder.autoUpdatePartitionsInterval(request.get("partitions_interval").asInt(), TimeUnit.SECONDS);
        }
        if (request.has("chunking")) {
            builder.enableChunking(true);
        }
        if (request.has("keys")) {
            builder.addEncryptionKey("key").defaultCryptoKeyReader("file:" + request.get("keys").get("public").asText());
        }
        return builder.create();
    }

    /** Return what is sent for a text: bytes, or a record with that name. */
    private static Object value(JsonNode request, String text) {
        return SCHEMAS.get(request.get("name").asText()) instanceof GenericSchema<?> schema
            ? schema.newRecordBuilder().set("name", text).build()
            : text.getBytes(StandardCharsets.UTF_8);
    }

    @SuppressWarnings("unchecked")
    private static List<String> send(Producer<?> producer, JsonNode request) throws Exception {
        JsonNode texts = request.get("texts");
        List<CompletableFuture<MessageId>> sent = new ArrayList<>();
        for (int i = 0; i < texts.size(); i++) {
            TypedMessageBuilder<Object> message = ((Producer<Object>) producer).newMessage();
            message.value(value(request, texts.get(i).asText())).properties(pairs(request.get("properties").get(i)));
            if (request.has("keys")) {
                message.key(request.get("keys").get(i).asText());
            }
            if (request.has("sequence_ids")) {
                message.sequenceId(request.get("sequence_ids").get(i).asLong());
            }
            if (request.has("after_ms")) {
                message.deliverAfter(request.get("after_ms").asLong(), TimeUnit.MILLISECONDS);
            }
            sent.add(message.sendAsync());
        }
        producer.flush();
        List<String> ids = new ArrayList<>();
        for (CompletableFuture<MessageId> each : sent) {
            ids.add(id(each.get()));
        }
        return ids;
    }

    private static <T> Consumer<T> consumer(String name, JsonNode request, Schema<T> schema) throws PulsarClientException {
        ConsumerBuilder<T> builder = client(request).newConsumer(schema)
            .subscriptionName(request.get("subscription").asText())
            .subscriptionType(SubscriptionType.valueOf(text(request, "type", "Exclusive")))
            .subscriptionInitialPosition(SubscriptionInitialPosition.valueOf(text(request, "position", "Latest")))
            .negativeAckRedeliveryDelay(request.path("nack_delay_ms").asInt(60_000), TimeUnit.MILLISECONDS)
            .enableBatchIndexAcknowledgment(request.has("batch_index_ack"))
            .priorityLevel(request.path("priority").asInt(0))
            .messageListener(listener(name));
        if (request.has("as")) {
            builder.consumerName(request.get("as").asText());
        }
        if (request.has("events")) {
            builder.consumerEventListener(new ConsumerEventListener() {
                @Override
                public void becameActive(Consumer<?> consumer, int partition) {
                    tell(Map.of("to", name, "event", "active"));
                }

                @Override
                public void becameInactive(Consumer<?> consumer, int partition) {
                    tell(Map.of("to", name, "event", "inactive"));
                }
            });
        }
        if (request.has("partitions_interval")) {
            builder.autoUpdatePartitionsInterval(request.get("partitions_interval").asInt(), TimeUnit.SECONDS);
        }
        if (request.has("subscription_properties")) {
            builder.subscriptionProperties(pairs(request.get("subscription_properties")));
        }
        if (request.has("keys")) {
            builder.defaultCryptoKeyReader("file:" + request.get("keys").get("private").asText());
        }
        if (request.has("dead_letters")) {
            JsonNode letters = request.get("dead_letters");
            DeadLetterPolicy.DeadLetterPolicyBuilder policy = DeadLetterPolicy.builder()
                .maxRedeliverCount(letters.get("after").asInt())
                .deadLetterTopic(letters.get("topic").asText())
                .initialSubscriptionName(letters.get("subscription").asText());
            if (request.has("retry_topic")) {
                policy.retryLetterTopic(request.get("retry_topic").asText());
            }
            builder.deadLetterPolicy(policy.build()).enableRetry(request.has("retry_topic"));
        }
        if (request.has("ranges")) {
            List<Range> ranges = new ArrayList<>();
            request.get("ranges").forEach(one -> ranges.add(Range.of(one.get(0).asInt(), one.get(1).asInt())));
            builder.keySharedPolicy(KeySharedPolicy.stickyHashRange().ranges(ranges));
        }
        if (request.has("pattern")) {
            builder.topicsPattern(Pattern.compile(request.get("pattern").asText()))
                .patternAutoDiscoveryPeriod(request.path("discovery_period").asInt(60), TimeUnit.SECONDS);
        } else {
            builder.topic(request.get("topic").asText());
        }
        return builder.subscribe();
    }

    private static <T> MessageListener<T> listener(String name) {
        return new MessageListener<>() {
            @Override
            public void received(Consumer<T> consumer, Message<T> message) {
                arrived(name, message);
            }

            @Override
            public void reachedEndOfTopic(Consumer<T> consumer) {
                tell(Map.of("to", name, "event", "end"));
            }
        };
    }

    private static Reader<byte[]> reader(String name, JsonNode request) throws PulsarClientException {
        MessageId start = text(request, "position", "").equals("Earliest") ? MessageId.earliest : MessageId.latest;
        ReaderBuilder<byte[]> builder = client(request).newReader()
            .topic(request.get("topic").asText())
            .startMessageId(request.has("from") ? RECEIVED.get(request.get("from").asText()).getMessageId() : start)
            .readerListener((reader, message) -> arrived(name, message));
        return (request.path("inclusive").asBoolean() ? builder.startMessageIdInclusive() : builder).create();
    }

    private static void close(String name) throws Exception {
        for (Map<String, ? extends AutoCloseable> things : List.of(PRODUCERS, CONSUMERS, READERS)) {
            AutoCloseable thing = things.remove(name);
            if (thing != null) {
                thing.close();
            }
        }
    }

    private static void arrived(String name, Message<?> message) {
        String id = id(message.getMessageId());
        RECEIVED.put(name + "/" + id, message);
        tell(Map.of("to", name, "message", Map.of(
            "id", id,
            "topic", message.getTopicName(),
            "text", message.getValue() instanceof GenericRecord record
                ? String.valueOf(record.getField("name"))
                : new String(message.getData(), StandardCharsets.UTF_8),
            "redelivered", message.getRedeliveryCount())));
    }

    private static List<Message<?>> received(JsonNode request) {
        String name = request.get("name").asText();
        List<Message<?>> found = new ArrayList<>();
        if (request.has("message")) {
            found.add(RECEIVED.get(name + "/" + request.get("message").asText()));
        }
        request.path("messages").forEach(id -> found.add(RECEIVED.get(name + "/" + id.asText())));
        return found;
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
