// The Go client in a process of its own, driven by JSON lines; ../python_client.py says what they look like.

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/crypto"
)

type request struct {
	ID           any
	Do           string
	Aside        bool
	Name         string
	Client       string
	URL          string
	Topic        string
	Subscription string
	Texts        []string
	Properties   []map[string]string
	Keys         json.RawMessage // of messages, or paths of PEM files
	SequenceIDs  []int64         `json:"sequence_ids"`
	AfterMs      int64           `json:"after_ms"`
	Message      string
	Messages     []string
	Time         int64
	Batch        uint
	Compression  string
	Access       string
	Chunking     bool
	As           string // the name of a producer or consumer
	Type         string
	Position     string
	Pattern      string
	NackDelayMs  int64 `json:"nack_delay_ms"`
	Ranges       [][]int
	Priority     int32
	BatchIndex   bool `json:"batch_index_ack"`
	Events       bool
	From         string
	Inclusive    bool
	DelayMs      int64 `json:"delay_ms"`
	DeadLetters  *struct {
		After        uint32
		Topic        string
		Subscription string
	} `json:"dead_letters"`
	RetryTopic   string `json:"retry_topic"`
	Schema       string // "AVRO" or "JSON"
	Definition   string // of the schema
	TokenFile    string `json:"token_file"`
	Transactions bool
}

var (
	clients   = map[string]pulsar.Client{}
	producers = map[string]pulsar.Producer{}
	records   = map[string]bool{} // whether a producer has a schema, by name
	consumers = map[string]pulsar.Consumer{}
	readers   = map[string]pulsar.Reader{}
	received  sync.Map // messages by "consumer/message id"
	writing   sync.Mutex
	output    = json.NewEncoder(os.Stdout)
	types     = map[string]pulsar.SubscriptionType{
		"": pulsar.Exclusive, "Exclusive": pulsar.Exclusive, "Shared": pulsar.Shared, "Failover": pulsar.Failover, "Key_Shared": pulsar.KeyShared,
	}
	accesses = map[string]pulsar.ProducerAccessMode{
		"": pulsar.ProducerAccessModeShared, "Shared": pulsar.ProducerAccessModeShared, "Exclusive": pulsar.ProducerAccessModeExclusive,
		"WaitForExclusive": pulsar.ProducerAccessModeWaitForExclusive,
	}
	compressions = map[string]pulsar.CompressionType{"": pulsar.NoCompression, "NONE": pulsar.NoCompression, "LZ4": pulsar.LZ4, "ZSTD": pulsar.ZSTD}
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	requests := make(chan request, 1000)
	go func() {
		for one := range requests {
			if one.Aside { // it may take long
				go perform(one)
			} else {
				perform(one)
			}
		}
	}()
	for lines.Scan() {
		var one request
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			panic(err)
		}
		requests <- one
	}
	os.Exit(0)
}

func tell(line any) {
	writing.Lock()
	defer writing.Unlock()
	if err := output.Encode(line); err != nil {
		os.Exit(1)
	}
}

func perform(one request) {
	answer, err := answered(one)
	if err != nil {
		tell(map[string]any{"id": one.ID, "error": err.Error()})
	} else {
		tell(map[string]any{"id": one.ID, "answer": answer})
	}
}

func answered(one request) (any, error) {
	switch one.Do {
	case "connect":
		options := pulsar.ClientOptions{URL: one.URL, EnableTransaction: one.Transactions}
		if one.TokenFile != "" {
			options.Authentication = pulsar.NewAuthenticationTokenFromSupplier(func() (string, error) {
				token, err := os.ReadFile(one.TokenFile)
				return string(token), err
			})
		}
		client, err := pulsar.NewClient(options)
		if err == nil {
			clients[one.Name] = client
		}
		return nil, err
	case "end":
		go clients[one.Name].Close()
		delete(clients, one.Name)
	case "producer":
		return nil, producer(one)
	case "send":
		return send(one)
	case "consumer":
		return nil, consumer(one)
	case "reader":
		return nil, reader(one)
	case "has_more":
		return readers[one.Name].HasNext(), nil
	case "ack":
		return nil, each(one, func(message pulsar.Message) error { return consumers[one.Name].Ack(message) })
	case "ack_cumulative":
		return nil, each(one, func(message pulsar.Message) error { return consumers[one.Name].AckCumulative(message) })
	case "nack":
		return nil, each(one, func(message pulsar.Message) error { consumers[one.Name].Nack(message); return nil })
	case "later":
		delay := time.Duration(one.DelayMs) * time.Millisecond
		return nil, each(one, func(message pulsar.Message) error { consumers[one.Name].ReconsumeLater(message, delay); return nil })
	case "seek":
		switch {
		case one.Time != 0:
			return nil, consumers[one.Name].SeekByTime(time.UnixMilli(one.Time))
		case one.Message == "Earliest":
			return nil, consumers[one.Name].Seek(pulsar.EarliestMessageID())
		}
		return nil, each(one, func(message pulsar.Message) error { return consumers[one.Name].Seek(message.ID()) })
	case "unsubscribe":
		return nil, consumers[one.Name].Unsubscribe()
	case "partitions":
		return clients[one.Client].TopicPartitions(one.Topic)
	case "close":
		if found, ok := producers[one.Name]; ok {
			found.Close()
		} else if found, ok := consumers[one.Name]; ok {
			found.Close()
		} else {
			readers[one.Name].Close()
		}
	default:
		return nil, fmt.Errorf("unknown: %s", one.Do)
	}
	return nil, nil
}

func producer(one request) error {
	options := pulsar.ProducerOptions{
		Topic: one.Topic, Name: one.As, DisableBatching: one.Batch == 0, CompressionType: compressions[one.Compression],
		ProducerAccessMode: accesses[one.Access], EnableChunking: one.Chunking, DisableMultiSchema: true, Schema: schema(one),
	}
	if one.Batch != 0 {
		options.BatchingMaxMessages, options.BatchingMaxPublishDelay = one.Batch, time.Minute
	}
	if one.Keys != nil {
		keys, err := keyReader(one)
		if err != nil {
			return err
		}
		options.Encryption = &pulsar.ProducerEncryptionInfo{KeyReader: keys, Keys: []string{"key"}}
	}
	found, err := clients[one.Client].CreateProducer(options)
	if err == nil {
		producers[one.Name], records[one.Name] = found, one.Schema != ""
	}
	return err
}

func schema(one request) pulsar.Schema {
	switch one.Schema {
	case "AVRO":
		return pulsar.NewAvroSchema(one.Definition, nil)
	case "JSON":
		return pulsar.NewJSONSchema(one.Definition, nil)
	}
	return nil
}

func keyReader(one request) (crypto.KeyReader, error) {
	var paths map[string]string
	err := json.Unmarshal(one.Keys, &paths)
	return crypto.NewFileKeyReader(paths["public"], paths["private"]), err
}

func send(one request) ([]string, error) {
	var keys []string
	if one.Keys != nil {
		if err := json.Unmarshal(one.Keys, &keys); err != nil {
			return nil, err
		}
	}
	type receipt struct {
		number int
		id     string
		err    error
	}
	receipts := make(chan receipt, len(one.Texts))
	for number, text := range one.Texts {
		message := &pulsar.ProducerMessage{Properties: one.Properties[number]}
		if records[one.Name] {
			message.Value = map[string]any{"name": text}
		} else {
			message.Payload = []byte(text)
		}
		if keys != nil {
			message.Key = keys[number]
		}
		if one.SequenceIDs != nil {
			message.SequenceID = &one.SequenceIDs[number]
		}
		if one.AfterMs != 0 {
			message.DeliverAfter = time.Duration(one.AfterMs) * time.Millisecond
		}
		producers[one.Name].SendAsync(context.Background(), message, func(id pulsar.MessageID, _ *pulsar.ProducerMessage, err error) {
			found := receipt{number: number, err: err}
			if err == nil {
				found.id = text_of(id)
			}
			receipts <- found
		})
	}
	if err := producers[one.Name].FlushWithCtx(context.Background()); err != nil {
		return nil, err
	}
	ids := make([]string, len(one.Texts))
	for range one.Texts {
		found := <-receipts
		if found.err != nil {
			return nil, found.err
		}
		ids[found.number] = found.id
	}
	return ids, nil
}

func consumer(one request) error {
	options := pulsar.ConsumerOptions{
		Topic: one.Topic, TopicsPattern: one.Pattern, SubscriptionName: one.Subscription, Name: one.As, Type: types[one.Type],
		NackRedeliveryDelay: time.Minute, EnableBatchIndexAcknowledgment: one.BatchIndex, RetryEnable: one.RetryTopic != "",
		Schema: schema(one),
	}
	if one.Position == "Earliest" {
		options.SubscriptionInitialPosition = pulsar.SubscriptionPositionEarliest
	}
	if one.NackDelayMs != 0 {
		options.NackRedeliveryDelay = time.Duration(one.NackDelayMs) * time.Millisecond
	}
	if one.Ranges != nil {
		flat := []int{}
		for _, pair := range one.Ranges {
			flat = append(flat, pair...)
		}
		policy, err := pulsar.NewKeySharedPolicySticky(flat)
		if err != nil {
			return err
		}
		options.KeySharedPolicy = policy
	}
	if one.DeadLetters != nil {
		deliveries := one.DeadLetters.After // of a letter: how often it is put off
		if one.RetryTopic == "" {
			deliveries++ // the first one is none that was asked for again
		}
		options.DLQ = &pulsar.DLQPolicy{
			MaxDeliveries: deliveries, DeadLetterTopic: one.DeadLetters.Topic,
			InitialSubscriptionName: one.DeadLetters.Subscription, RetryLetterTopic: one.RetryTopic,
		}
	}
	if one.Keys != nil {
		keys, err := keyReader(one)
		if err != nil {
			return err
		}
		options.Decryption = &pulsar.MessageDecryptionInfo{KeyReader: keys}
	}
	if one.Events {
		options.EventListener = listener(one.Name)
	}
	found, err := clients[one.Client].Subscribe(options)
	if err != nil {
		return err
	}
	consumers[one.Name] = found
	go func() {
		for message := range found.Chan() {
			arrived(one.Name, message.Message, one.Schema != "")
		}
	}()
	return nil
}

type listener string

func (name listener) BecameActive(pulsar.Consumer, string, int32) {
	tell(map[string]any{"to": name, "event": "active"})
}
func (name listener) BecameInactive(pulsar.Consumer, string, int32) {
	tell(map[string]any{"to": name, "event": "inactive"})
}

func reader(one request) error {
	start := pulsar.EarliestMessageID()
	if one.Position == "Latest" {
		start = pulsar.LatestMessageID()
	}
	if one.From != "" {
		message, _ := received.Load(one.From)
		start = message.(pulsar.Message).ID()
	}
	found, err := clients[one.Client].CreateReader(pulsar.ReaderOptions{Topic: one.Topic, StartMessageID: start, StartMessageIDInclusive: one.Inclusive})
	if err != nil {
		return err
	}
	readers[one.Name] = found
	go func() {
		for {
			message, err := found.Next(context.Background())
			if err != nil {
				return
			}
			arrived(one.Name, message, false)
		}
	}()
	return nil
}

func each(one request, call func(pulsar.Message) error) error {
	keys := one.Messages
	if one.Message != "" {
		keys = append(keys, one.Message)
	}
	for _, key := range keys {
		message, ok := received.Load(one.Name + "/" + key)
		if !ok {
			return fmt.Errorf("%s was not received", key)
		}
		if err := call(message.(pulsar.Message)); err != nil {
			return err
		}
	}
	return nil
}

func arrived(name string, message pulsar.Message, isRecord bool) {
	id, text := text_of(message.ID()), string(message.Payload())
	if isRecord {
		var record map[string]any
		if err := message.GetSchemaValue(&record); err != nil {
			text = err.Error()
		} else {
			text = fmt.Sprint(record["name"])
		}
	}
	received.Store(name+"/"+id, message)
	tell(map[string]any{"to": name, "message": map[string]any{
		"id": id, "topic": message.Topic(), "text": text, "redelivered": message.RedeliveryCount(),
	}})
}

func text_of(id pulsar.MessageID) string {
	partition := "-1"
	if id.PartitionIdx() >= 0 {
		partition = strconv.Itoa(int(id.PartitionIdx()))
	}
	return fmt.Sprintf("%d:%d:%s:%d", id.LedgerID(), id.EntryID(), partition, id.BatchIdx())
}
