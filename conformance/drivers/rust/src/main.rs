//! The driver of the client for Rust. It reads requests as JSON lines, gives each a task, and prints an answer for each; whatever its
//! user would see comes as an event. docs/drivers.md describes the lines, the verbs and their arguments.

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::TryStreamExt;
use pulsar::consumer::{Consumer, ConsumerOptions, InitialPosition, Message};
use pulsar::message::proto::MessageIdData;
use pulsar::producer::{self, Producer, ProducerOptions};
use pulsar::{compression::Compression, ConnectionRetryOptions, OperationRetryOptions, Pulsar, SubType, TokioExecutor};
use regex::Regex;
use serde_json::{json, Value};
use tokio::sync::{mpsc, oneshot, Mutex};

const VERSION: &str = "6.9.1"; // as in Cargo.toml
const VERBS: [(&str, &[&str]); 12] = [
    ("begin", &["service_url"]),
    ("end", &[]),
    ("start", &["operation_timeout_ms", "keep_alive_ms"]),
    ("producer", &["name", "topic", "batch", "compression", "access", "as"]),
    ("send", &["producer", "texts", "properties", "keys", "event_times", "deliver_after_ms", "flush"]),
    ("consumer", &["name", "subscription", "topic", "pattern", "type", "position", "queue", "as", "discovery_ms", "takes"]),
    ("take", &["consumer"]),
    ("acknowledge", &["consumer", "message", "cumulative"]),
    ("negative_acknowledge", &["consumer", "message"]),
    ("seek", &["consumer", "to"]),
    ("unsubscribe", &["consumer"]),
    ("close", &["name"]),
];

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Answer = Result<Value, Failure>;
type Client = Pulsar<TokioExecutor>;
type Asked = (Value, oneshot::Sender<Answer>);

#[derive(Debug)]
struct Unsupported(String);

impl std::fmt::Display for Unsupported {
    fn fmt(&self, to: &mut std::fmt::Formatter) -> std::fmt::Result {
        to.write_str(&self.0)
    }
}

impl std::error::Error for Unsupported {}

/// One client, with its producers and consumers by name.
#[derive(Default)]
struct Driver {
    url: Mutex<String>,
    client: Mutex<Option<Client>>,
    producers: Mutex<HashMap<String, Arc<Mutex<Producer<TokioExecutor>>>>>,
    consumers: Mutex<HashMap<String, mpsc::UnboundedSender<Asked>>>,
}

fn say(line: Value) {
    let mut output = std::io::stdout().lock();
    if writeln!(output, "{line}").and_then(|_| output.flush()).is_err() {
        std::process::exit(1);
    }
}

fn text<'a>(request: &'a Value, key: &str, otherwise: &'a str) -> &'a str {
    request[key].as_str().unwrap_or(otherwise)
}

fn milliseconds(request: &Value, key: &str, otherwise: u64) -> Duration {
    Duration::from_millis(request[key].as_u64().unwrap_or(otherwise))
}

#[tokio::main]
async fn main() {
    let (lines, mut requests) = mpsc::unbounded_channel::<Value>();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let _ = lines.send(serde_json::from_str(&line.expect("a line")).expect("JSON"));
        }
        std::process::exit(0);
    });
    let driver = Arc::new(Driver::default());
    while let Some(request) = requests.recv().await {
        let driver = driver.clone();
        tokio::spawn(async move {
            let id = request["id"].clone();
            say(match driver.perform(request).await {
                Ok(result) => json!({"id": id, "ok": true, "result": result}),
                Err(error) if error.is::<Unsupported>() => json!({"id": id, "unsupported": error.to_string()}),
                Err(error) => json!({"id": id, "error": error.to_string()}),
            });
        });
    }
}

impl Driver {
    async fn perform(&self, request: Value) -> Answer {
        let verb = text(&request, "do", "");
        if verb == "hello" {
            let verbs: Vec<&str> = VERBS.iter().map(|(name, _)| *name).collect();
            return Ok(json!({
                "protocol": 1, "client": "pulsar-rs", "version": VERSION, "language": "Rust",
                "capabilities": ["pattern-consumers", "without-flags"], "verbs": verbs,
            }));
        }
        let (_, takes) = VERBS.iter().find(|(name, _)| *name == verb).ok_or(Unsupported(verb.to_string()))?;
        let given = request.as_object().ok_or("no object")?.keys();
        if let Some(key) = given.filter(|key| !["id", "do"].contains(&key.as_str())).find(|key| !takes.contains(&key.as_str())) {
            return Err(Unsupported(format!("option {key}")).into());
        }
        let name = text(&request, "name", "").to_string();
        match verb {
            "begin" => *self.url.lock().await = text(&request, "service_url", "").to_string(),
            "end" => self.end().await,
            "start" => self.start(&request).await?,
            "producer" => {
                let made = new_producer(&self.connected().await?, &request).await?;
                self.producers.lock().await.insert(name, Arc::new(Mutex::new(made)));
            }
            "send" => {
                let using = self.producers.lock().await.get(text(&request, "producer", "")).cloned().ok_or("no such producer")?;
                if request["flush"] == json!(false) {
                    tokio::spawn(async move { send(&mut *using.lock().await, &request).await });
                    return Ok(Value::Null);
                }
                return send(&mut *using.lock().await, &request).await;
            }
            "consumer" => {
                let client = self.connected().await?;
                let made = new_consumer(&client, &request).await?;
                let (sender, receiver) = mpsc::unbounded_channel();
                self.consumers.lock().await.insert(name.clone(), sender);
                tokio::spawn(consume(name, client, made, receiver, request["takes"].as_u64()));
            }
            "close" if self.producers.lock().await.contains_key(&name) => {
                let closing = self.producers.lock().await.remove(&name).ok_or("no such producer")?;
                closing.lock().await.close().await?;
            }
            _ => {
                let of = text(&request, "consumer", &name).to_string();
                let (answer, coming) = oneshot::channel();
                self.consumers.lock().await.get(&of).ok_or("no such consumer")?.send((request, answer))?;
                return coming.await?;
            }
        }
        Ok(Value::Null)
    }

    async fn start(&self, request: &Value) -> Result<(), Failure> {
        let retries = OperationRetryOptions { operation_timeout: milliseconds(request, "operation_timeout_ms", 30_000), ..Default::default() };
        let connections = ConnectionRetryOptions { keep_alive: milliseconds(request, "keep_alive_ms", 60_000), ..Default::default() };
        let builder = Pulsar::builder(self.url.lock().await.clone(), TokioExecutor);
        let made = builder.with_operation_retry_options(retries).with_connection_retry_options(connections).build().await?;
        *self.client.lock().await = Some(made);
        Ok(())
    }

    async fn connected(&self) -> Result<Client, Failure> {
        if self.client.lock().await.is_none() {
            self.start(&Value::Null).await?;
        }
        Ok(self.client.lock().await.clone().ok_or("no client")?)
    }

    /// Forget everything: a client is closed when nobody has it any more.
    async fn end(&self) {
        self.producers.lock().await.clear();
        self.consumers.lock().await.clear();
        *self.client.lock().await = None;
    }
}

async fn new_producer(client: &Client, request: &Value) -> Result<Producer<TokioExecutor>, Failure> {
    let batch = &request["batch"];
    if batch["key_based"] == json!(true) {
        return Err(Unsupported("batches by key".to_string()).into());
    }
    let options = ProducerOptions {
        batch_size: (!batch.is_null()).then(|| batch["messages"].as_u64().unwrap_or(1000) as u32),
        batch_byte_size: batch["bytes"].as_u64().map(|bytes| bytes as usize),
        batch_timeout: (!batch.is_null()).then(|| milliseconds(batch, "delay_ms", 60_000)),
        compression: Some(match text(request, "compression", "NONE") {
            "NONE" => Compression::None,
            "LZ4" => Compression::Lz4(Default::default()),
            "ZLIB" => Compression::Zlib(Default::default()),
            "ZSTD" => Compression::Zstd(Default::default()),
            "SNAPPY" => Compression::Snappy(Default::default()),
            other => return Err(Unsupported(other.to_string()).into()),
        }),
        access_mode: Some(match text(request, "access", "Shared") {
            "Shared" => 0,
            "Exclusive" => 1,
            "WaitForExclusive" => 2,
            "ExclusiveWithFencing" => 3,
            other => return Err(Unsupported(other.to_string()).into()),
        }),
        ..Default::default()
    };
    let mut builder = client.producer().with_topic(text(request, "topic", "")).with_options(options);
    if let Some(name) = request["as"].as_str() {
        builder = builder.with_name(name);
    }
    Ok(builder.build().await?)
}

async fn send(producer: &mut Producer<TokioExecutor>, request: &Value) -> Answer {
    let mut receipts = vec![];
    for (number, body) in request["texts"].as_array().ok_or("no texts")?.iter().enumerate() {
        let properties = request["properties"][number].as_object().cloned().unwrap_or_default();
        let mut message = producer::Message {
            payload: body.as_str().unwrap_or("").as_bytes().to_vec(),
            properties: properties.into_iter().map(|(key, value)| (key, value.as_str().unwrap_or("").to_string())).collect(),
            partition_key: request["keys"][number].as_str().map(str::to_string),
            event_time: request["event_times"][number].as_u64(),
            ..Default::default()
        };
        if request["deliver_after_ms"].is_u64() {
            let at = SystemTime::now() + milliseconds(request, "deliver_after_ms", 0);
            message.deliver_at_time = Some(at.duration_since(UNIX_EPOCH)?.as_millis() as i64);
        }
        receipts.push(producer.send_non_blocking(message).await?);
    }
    if producer.options().batch_size.is_some() {
        producer.send_batch().await?;
    }
    let mut ids = vec![];
    for receipt in receipts {
        ids.push(receipt.await?.message_id.map(|id| format!("{}:{}", id.ledger_id, id.entry_id)));
    }
    Ok(json!({ "ids": ids }))
}

async fn new_consumer(client: &Client, request: &Value) -> Result<Consumer<Vec<u8>, TokioExecutor>, Failure> {
    let options = ConsumerOptions {
        initial_position: match text(request, "position", "Latest") {
            "Earliest" => InitialPosition::Earliest,
            _ => InitialPosition::Latest,
        },
        receiver_queue_size: request["queue"].as_u64().map(|size| size as u32),
        ..Default::default()
    };
    let kind = match text(request, "type", "Exclusive") {
        "Exclusive" => SubType::Exclusive,
        "Shared" => SubType::Shared,
        "Failover" => SubType::Failover,
        "Key_Shared" => SubType::KeyShared,
        other => return Err(Unsupported(other.to_string()).into()),
    };
    let mut builder = client
        .consumer()
        .with_subscription(text(request, "subscription", "s"))
        .with_subscription_type(kind)
        .with_consumer_name(text(request, "as", text(request, "name", "")))
        .with_options(options);
    builder = match request["pattern"].as_str() {
        None => builder.with_topic(text(request, "topic", "")),
        Some(pattern) => {
            let namespace: Vec<&str> = pattern.split("://").last().unwrap_or("").split('/').take(2).collect();
            builder
                .with_topic_regex(Regex::new(pattern)?)
                .with_lookup_namespace(namespace.join("/"))
                .with_topic_refresh(milliseconds(request, "discovery_ms", 60_000))
        }
    };
    Ok(builder.build().await?)
}

/// Owns a consumer: tells of its messages and does what is asked of it, until nobody can ask any more.
/// If `takes` says how many messages, it takes no more than these until it is asked to `take`.
async fn consume(
    name: String,
    client: Client,
    mut consumer: Consumer<Vec<u8>, TokioExecutor>,
    mut asked: mpsc::UnboundedReceiver<Asked>,
    mut takes: Option<u64>,
) {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut received: HashMap<String, Message<Vec<u8>>> = HashMap::new();
    let mut is_finished = false;
    loop {
        tokio::select! {
            one = asked.recv() => {
                let Some((request, answer)) = one else { return };
                if text(&request, "do", "") == "take" {
                    takes = None;
                    let _ = answer.send(Ok(Value::Null));
                    continue;
                }
                let outcome = carry_out(&client, &mut consumer, &received, &request).await;
                // a consumer whose unsubscribing is refused goes on
                let is_over = outcome.is_ok() && matches!(text(&request, "do", ""), "close" | "unsubscribe");
                let _ = answer.send(outcome);
                if is_over {
                    return;
                }
            }
            next = consumer.try_next(), if !is_finished && takes != Some(0) => match next {
                Ok(Some(message)) => {
                    takes = takes.map(|count| count - 1);
                    let number = (COUNT.fetch_add(1, Ordering::Relaxed) + 1).to_string();
                    let metadata = message.metadata();
                    let properties: HashMap<&str, &str> = metadata.properties.iter().map(|one| (one.key.as_str(), one.value.as_str())).collect();
                    say(json!({"event": "message", "detail": {
                        "consumer": name, "message": number, "topic": message.topic,
                        "text": String::from_utf8_lossy(&message.payload.data), "properties": properties,
                        "redelivered": 0, // the client does not tell its user
                    }}));
                    received.insert(number, message);
                }
                other => {
                    eprintln!("{name} receives no more: {:?}", other.err());
                    is_finished = true; // its user can still acknowledge what it has
                }
            },
        }
    }
}

async fn carry_out(
    client: &Client,
    consumer: &mut Consumer<Vec<u8>, TokioExecutor>,
    received: &HashMap<String, Message<Vec<u8>>>,
    request: &Value,
) -> Answer {
    let message = |key: &str| received.get(text(request, key, "")).ok_or("no such message");
    match text(request, "do", "") {
        "acknowledge" if request["cumulative"] == json!(true) => consumer.cumulative_ack(message("message")?).await?,
        "acknowledge" => consumer.ack(message("message")?).await?,
        "negative_acknowledge" => consumer.nack(message("message")?).await?,
        "seek" => {
            let end = |number| MessageIdData { ledger_id: number, entry_id: number, ..Default::default() };
            let id = match text(request, "to", "") {
                "Earliest" => end(u64::MAX),
                "Latest" => end(i64::MAX as u64),
                _ => message("to")?.message_id().clone(),
            };
            consumer.seek(None, Some(id), None, client.clone()).await?;
        }
        "unsubscribe" => consumer.unsubscribe().await?,
        _ => consumer.close().await?,
    }
    Ok(Value::Null)
}
