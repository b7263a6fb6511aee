// The driver of the npm client pulsar-flex. It reads requests as JSON lines, begins with each at once, and prints an answer for each;
// whatever its user would see comes as an event. docs/drivers.md describes the lines, the verbs and their arguments.
//
// The client has no way to close a consumer, or to end its attempts to reconnect. So each case has a process of its own, a copy of this
// file with the argument "case": `begin` starts it, `end` ends it. If the client brings it down, what was asked of it fails.

const { fork } = require('child_process');
const { createInterface } = require('readline');
const { version } = require('./node_modules/pulsar-flex/package.json');

const say = (line) => process.stdout.write(JSON.stringify(line) + '\n');

class Unsupported extends Error {}

/** Refuse options that the client does not have. */
const only = (options, ...known) => {
  const unknown = Object.keys(options).filter((key) => !known.includes(key));
  if (unknown.length) {
    throw new Unsupported(`option ${unknown.join(', ')}`);
  }
};

const chosen = (choices, name) => {
  if (!(name.toUpperCase() in choices)) {
    throw new Unsupported(name);
  }
  return choices[name.toUpperCase()];
};

/** Return the verbs of one case: its client, with its producers and consumers by name. */
const newCase = (serviceUrl, tell) => {
  const { Producer, Consumer } = require('pulsar-flex');
  const logCreator = () => ({ label, log }) => process.stderr.write(`${label} ${JSON.stringify(log)}\n`);
  const common = { discoveryServers: [serviceUrl.replace('pulsar://', '')], logCreator };
  const producers = {};
  const consumers = {};
  const acks = {}; // by "consumer/number"
  let count = 0;
  const acknowledge = (consumer, message, type) => acks[`${consumer}/${message}`]({ type });

  return {
    producer: async ({ name, topic, ...options }) => {
      only(options, 'access', 'batch');
      only(options.batch || {}, 'messages', 'delay_ms'); // what is sent at once is a batch: nothing else closes one
      const access = chosen(Producer.ACCESS_MODES, options.access || 'Shared');
      const producer = new Producer({ ...common, topic, producerAccessMode: access });
      await producer.create();
      producers[name] = { producer, batch: options.batch };
    },
    send: async ({ producer: name, texts, ...options }) => {
      only(options, 'properties', 'flush');
      const { producer, batch } = producers[name];
      if (batch && texts.length > (batch.messages || Infinity)) {
        throw new Unsupported('a limit of batches');
      }
      const messages = texts.map((payload, index) => ({ payload, properties: (options.properties || [])[index] || {} }));
      const sending = async () => {
        if (batch) {
          await producer.sendBatch({ messages });
        } else {
          for (const message of messages) {
            await producer.sendMessage(message);
          }
        }
      };
      if (options.flush === false) {
        sending();
        return {};
      }
      await sending();
      return { ids: texts.map((_, index) => String(index)) }; // the client does not tell its user what ids they got
    },
    consumer: async ({ name, topic, subscription = 's', ...options }) => {
      only(options, 'type', 'position', 'queue', 'as');
      const consumer = new Consumer({
        ...common,
        topic,
        subscription,
        subType: chosen(Consumer.SUB_TYPES, options.type || 'Exclusive'),
        initialPosition: chosen(Consumer.INITIAL_POSITION, options.position || 'Latest'),
        receiveQueueSize: options.queue || 1000,
        consumerName: options.as || name,
      });
      await consumer.subscribe();
      consumers[name] = consumer;
      await consumer.run({
        autoAck: false,
        onMessage: async ({ message, properties, redeliveryCount, ack }) => {
          const number = String(++count);
          acks[`${name}/${number}`] = ack;
          const detail = { consumer: name, message: number, topic, text: message.toString(), properties, redelivered: redeliveryCount || 0 };
          tell({ event: 'message', detail });
        },
      });
    },
    acknowledge: async ({ consumer, message, cumulative }) => {
      const { CUMULATIVE, INDIVIDUAL } = Consumer.ACK_TYPES;
      await acknowledge(consumer, message, cumulative ? CUMULATIVE : INDIVIDUAL);
    },
    negative_acknowledge: async ({ consumer, message }) => acknowledge(consumer, message, Consumer.ACK_TYPES.NEGATIVE),
    unsubscribe: async ({ consumer }) => consumers[consumer].unsubscribe(),
    close: async ({ name }) => {
      if (!(name in producers)) {
        throw new Unsupported('consumers that are closed');
      }
      await producers[name].producer.close();
    },
  };
};

/** The process of a case: does what is asked. */
const runCase = (serviceUrl) => {
  const verbs = newCase(serviceUrl, (line) => process.send(line));
  process.on('message', async ({ id, do: verb, ...given }) => {
    try {
      process.send({ id, ok: true, result: await verbs[verb](given) });
    } catch (error) {
      const reason = error instanceof Unsupported ? { unsupported: error.message } : { error: `${error.name}: ${error.message || error}` };
      process.send({ id, ...reason });
    }
  });
  process.on('disconnect', () => process.exit(0));
};

const VERBS = ['begin', 'end', ...Object.keys(newCase('', say))].sort();
const HELLO = { protocol: 1, client: 'pulsar-flex', version, language: 'JavaScript', capabilities: ['without-flags'], verbs: VERBS };

/** The process that the suite talks to: has a process for each case. */
const main = () => {
  let worker;
  const asked = new Set();

  const begin = (serviceUrl) => {
    const begun = fork(__filename, ['case', serviceUrl], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
    worker = begun;
    begun.on('message', (line) => {
      if (begun === worker) {
        asked.delete(line.id);
        say(line);
      }
    });
    begun.on('exit', (code) => {
      if (begun === worker) {
        worker = undefined;
        asked.forEach((id) => say({ id, error: `the client has ended its process, with exit code ${code}` }));
        asked.clear();
      }
    });
  };

  const end = () => {
    const ended = worker;
    worker = undefined;
    asked.clear();
    if (ended) {
      ended.kill('SIGKILL');
    }
  };

  createInterface({ input: process.stdin })
    .on('line', (line) => {
      const request = JSON.parse(line);
      const { id, do: verb } = request;
      if (verb === 'hello') {
        say({ id, ok: true, result: HELLO });
      } else if (!VERBS.includes(verb)) {
        say({ id, unsupported: verb });
      } else if (verb === 'begin' || verb === 'end') {
        end();
        if (verb === 'begin') {
          begin(request.service_url);
        }
        say({ id, ok: true });
      } else if (!worker) {
        say({ id, error: 'the process of the client has ended' });
      } else {
        asked.add(id);
        worker.send(request);
      }
    })
    .on('close', () => process.exit(0));
};

if (process.argv[2] === 'case') {
  runCase(process.argv[3]);
} else {
  main();
}
