//! The Rust client in a process of its own, driven by JSON lines; ../python_client.py says what they look like.

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::time::Duration;

use futures::TryStreamExt;
use pulsar::consumer::{Consumer, ConsumerOptions, InitialPosition, Message};
use pulsar::message::proto::MessageIdData;
use pulsar::producer::{self, Producer, ProducerOptions};
use pulsar::{compression, Pulsar, SubType, TokioExecutor};
use serde_json::{json, Value};
use tokio::sync::{mpsc, oneshot};

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Answer = Result<Value, Failure>;
type Request = (Value, oneshot::Sender<Answer>);

#[derive(Default)]
struct State {
    clients: HashMap<String, Pulsar<TokioExecutor>>,
    producers: HashMap<String, Producer<TokioExecutor>>,
    consumers: HashMap<String, mpsc::UnboundedSender<Request>>,
}

fn tell(line: Value) {
    let mut output = std::io::stdout().lock();
    if writeln!(output, "{line}").and_then(|_| output.flush()).is_err() {
        std::process::exit(1);
    }
}

fn text<'a>(request: &'a Value, key: &str, otherwise: &'a str) -> &'a str {
    request[key].as_str().unwrap_or(otherwise)
}

fn id_text(id: &MessageIdData) -> String {
    format!("{}:{}:{}:{}", id.ledger_id, id.entry_id, id.partition.unwrap_or(-1), id.batch_index.unwrap_or(-1))
}

#[tokio::main]
async fn main() {
    let (lines, mut requests) = mpsc::unbounded_channel::<Value>();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let line = line.expect("a line");
            let _ = lines.send(serde_json::from_str(&line).expect("JSON"));
        }
        std::process::exit(0);
    });
    let mut state = State::default();
    while let Some(request) = requests.recv().await {
        let id = request["id"].clone();
        match perform(&mut state, request).await {
            Ok(answer) => tell(json!({"id": id, "answer": answer})),
            Err(error) => tell(json!({"id": id, "error": error.to_string()})),
        }
    }
}

async fn perform(state: &mut State, request: Value) -> Answer {
    let name = text(&request, "name", "").to_string();
    match text(&request, "do", "") {
        "connect" => {
            let client = Pulsar::builder(text(&request, "url", ""), TokioExecutor).build().await?;
            state.clients.insert(name, client);
        }
        "end" => {
            state.clients.remove(&name);
        }
        "producer" => {
            let client = &state.clients[text(&request, "client", "")];
            state.producers.insert(name, new_producer(client, &request).await?);
        }
        "send" => return send(state.producers.get_mut(&name).ok_or("no such producer")?, &request).await,
        "consumer" => {
            let client = state.clients[text(&request, "client", "")].clone();
            let consumer = new_consumer(&client, &request).await?;
            let (sender, receiver) = mpsc::unbounded_channel();
            state.consumers.insert(name.clone(), sender);
            tokio::spawn(consume(name, client, consumer, receiver));
        }
        "close" if state.producers.contains_key(&name) => state.producers.remove(&name).unwrap().close().await?,
        _ => {
            let (sender, receiver) = oneshot::channel();
            state.consumers[&name].send((request, sender))?;
            return receiver.await?;
        }
    }
    Ok(Value::Null)
}

async fn new_producer(client: &Pulsar<TokioExecutor>, request: &Value) -> Result<Producer<TokioExecutor>, Failure> {
    let options = ProducerOptions {
        batch_size: request["batch"].as_u64().map(|count| count as u32),
        compression: Some(match text(request, "compression", "NONE") {
            "LZ4" => compression::Compression::Lz4(Default::default()),
            "ZSTD" => compression::Compression::Zstd(Default::default()),
            _ => compression::Compression::None,
        }),
        access_mode: Some(match text(request, "access", "Shared") {
            "Exclusive" => 1,
            "WaitForExclusive" => 2,
            "ExclusiveWithFencing" => 3,
            _ => 0,
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
            ..Default::default()
        };
        if let Some(delay) = request["after_ms"].as_u64() {
            let at = std::time::SystemTime::now() + Duration::from_millis(delay);
            message.deliver_at_time = Some(at.duration_since(std::time::UNIX_EPOCH)?.as_millis() as i64);
        }
        receipts.push(producer.send_non_blocking(message).await?);
    }
    if producer.options().batch_size.is_some() {
        producer.send_batch().await?;
    }
    let mut ids = vec![];
    for receipt in receipts {
        ids.push(receipt.await?.message_id.map(|id| id_text(&id)));
    }
    Ok(json!(ids))
}

async fn new_consumer(client: &Pulsar<TokioExecutor>, request: &Value) -> Result<Consumer<Vec<u8>, TokioExecutor>, Failure> {
    let options = ConsumerOptions {
        initial_position: match text(request, "position", "Latest") {
            "Earliest" => InitialPosition::Earliest,
            _ => InitialPosition::Latest,
        },
        priority_level: request["priority"].as_i64().map(|level| level as i32),
        ..Default::default()
    };
    let kind = match text(request, "type", "Exclusive") {
        "Shared" => SubType::Shared,
        "Failover" => SubType::Failover,
        "Key_Shared" => SubType::KeyShared,
        _ => SubType::Exclusive,
    };
    let consumer = client
        .consumer()
        .with_topic(text(request, "topic", ""))
        .with_subscription(text(request, "subscription", "s"))
        .with_subscription_type(kind)
        .with_consumer_name(text(request, "as", text(request, "name", "")))
        .with_options(options);
    Ok(consumer.build().await?)
}

/// Owns a consumer: tells of its messages and does what is asked of it.
async fn consume(
    name: String,
    client: Pulsar<TokioExecutor>,
    mut consumer: Consumer<Vec<u8>, TokioExecutor>,
    mut requests: mpsc::UnboundedReceiver<Request>,
) {
    let mut received: HashMap<String, Message<Vec<u8>>> = HashMap::new();
    loop {
        tokio::select! {
            asked = requests.recv() => match asked {
                Some((request, answer)) => {
                    let is_over = matches!(text(&request, "do", ""), "close" | "unsubscribe");
                    let _ = answer.send(carry_out(&client, &mut consumer, &received, &request).await);
                    if is_over {
                        return;
                    }
                }
                None => return,
            },
            next = consumer.try_next() => match next {
                Ok(Some(message)) => {
                    let id = id_text(message.message_id());
                    let body = String::from_utf8_lossy(&message.payload.data).to_string();
                    tell(json!({"to": name, "message": {"id": id, "topic": message.topic, "text": body, "redelivered": -1}}));
                    received.insert(id, message);
                }
                other => {
                    eprintln!("{name} receives no more: {:?}", other.err());
                    return;
                }
            },
        }
    }
}

async fn carry_out(
    client: &Pulsar<TokioExecutor>,
    consumer: &mut Consumer<Vec<u8>, TokioExecutor>,
    received: &HashMap<String, Message<Vec<u8>>>,
    request: &Value,
) -> Answer {
    let mut keys: Vec<&str> = request["messages"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    keys.extend(request["message"].as_str().filter(|key| *key != "Earliest"));
    let found: Vec<&Message<Vec<u8>>> = keys.iter().filter_map(|key| received.get(*key)).collect();
    match text(request, "do", "") {
        "ack" => {
            for one in found {
                consumer.ack(one).await?;
            }
        }
        "ack_cumulative" => consumer.cumulative_ack(found[0]).await?,
        "nack" => {
            for one in found {
                consumer.nack(one).await?;
            }
        }
        "seek" => {
            let earliest = MessageIdData { ledger_id: u64::MAX, entry_id: u64::MAX, ..Default::default() };
            let time = request["time"].as_u64();
            let id = found.first().map(|one| one.message_id().clone()).unwrap_or(earliest);
            consumer.seek(None, time.is_none().then_some(id), time, client.clone()).await?;
        }
        "unsubscribe" => consumer.unsubscribe().await?,
        "close" => consumer.close().await?,
        other => return Err(format!("unknown: {other}").into()),
    }
    Ok(Value::Null)
}
