// The npm client pulsar-flex in a process of its own, driven by JSON lines; ../python_client.py says what they look like.

const { createInterface } = require('readline');
const { Producer, Consumer } = require('pulsar-flex');

const producers = {};
const consumers = {};
const received = {}; // by "consumer/message id"
const urls = {};
let numbers = 0;

const tell = (line) => process.stdout.write(JSON.stringify(line) + '\n');
const logCreator = () => ({ namespace, level, label, log }) => process.stderr.write(JSON.stringify({ namespace, label, log }) + '\n');
const common = (request) => ({ topic: request.topic, discoveryServers: [urls[request.client].replace('pulsar://', '')], logCreator });
const found = (request) => (request.messages || [request.message]).map((id) => received[`${request.name}/${id}`]);

const commands = {
  connect: async (request) => { urls[request.name] = request.url; },
  end: async () => {},
  producer: async (request) => {
    const mode = { Shared: 'SHARED', Exclusive: 'EXCLUSIVE' }[request.access || 'Shared'];
    const producer = new Producer({ ...common(request), producerAccessMode: Producer.ACCESS_MODES[mode] });
    await producer.create();
    producers[request.name] = Object.assign(producer, { batch: request.batch });
  },
  send: async (request) => {
    const producer = producers[request.name];
    const messages = request.texts.map((payload, index) => ({ payload, properties: request.properties[index] }));
    if (producer.batch) {
      await producer.sendBatch({ messages });
    } else {
      for (const message of messages) {
        await producer.sendMessage(message);
      }
    }
  },
  consumer: async (request) => {
    const consumer = new Consumer({
      ...common(request),
      subscription: request.subscription,
      subType: Consumer.SUB_TYPES[(request.type || 'Exclusive').toUpperCase()],
      consumerName: request.as || request.name,
      initialPosition: Consumer.INITIAL_POSITION[(request.position || 'Latest').toUpperCase()],
      receiveQueueSize: 1000,
    });
    await consumer.subscribe();
    consumers[request.name] = consumer;
    await consumer.run({
      autoAck: false,
      onMessage: async ({ message, command, redeliveryCount, ack }) => {
        const { ledgerid, entryid } = command.messageId;
        const id = `${ledgerid}:${entryid}:${++numbers}`;
        received[`${request.name}/${id}`] = ack;
        tell({ to: request.name, message: { id, topic: request.topic, text: message.toString(), redelivered: redeliveryCount } });
      },
    });
  },
  ack: async (request) => { await Promise.all(found(request).map((ack) => ack())); },
  ack_cumulative: async (request) => { await found(request)[0]({ type: Consumer.ACK_TYPES.CUMULATIVE }); },
  nack: async (request) => { await Promise.all(found(request).map((ack) => ack({ type: Consumer.ACK_TYPES.NEGATIVE }))); },
  unsubscribe: async (request) => { await consumers[request.name].unsubscribe(); },
  close: async (request) => { await producers[request.name].close(); },
};

let last = Promise.resolve();
createInterface({ input: process.stdin })
  .on('line', (line) => {
    const request = JSON.parse(line);
    last = last
      .then(() => commands[request.do](request))
      .then(
        (answer) => tell({ id: request.id, answer: answer === undefined ? null : answer }),
        (error) => tell({ id: request.id, error: `${error.name}: ${JSON.stringify(error.message || error)}` }),
      );
  })
  .on('close', () => process.exit(0));
process.on('unhandledRejection', (error) => process.stderr.write(`unhandled: ${error}\n`));
process.on('uncaughtException', (error) => process.stderr.write(`uncaught: ${error}\n`));
