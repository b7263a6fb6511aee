// The driver of Apache Pulsar's Go client. It reads requests as JSON lines, gives each a goroutine, and prints an answer for each;
// whatever its user would see comes as an event. docs/drivers.md describes the lines, the verbs and their arguments.

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

// arguments of a request: one field for each that some verb of this driver takes.
type arguments struct {
	ServiceURL           string `json:"service_url"`
	OperationTimeoutMs   int64  `json:"operation_timeout_ms"`
	KeepAliveMs          int64  `json:"keep_alive_ms"`
	Token                *string
	ListenerName         string `json:"listener_name"`
	Name                 string
	Topic                string
	Pattern              string
	Subscription         string
	Type                 string
	Position             string
	Queue                int
	As                   string
	NackDelayMs          int64 `json:"nack_delay_ms"`
	DiscoveryMs          int64 `json:"discovery_ms"`
	PartitionsIntervalMs int64 `json:"partitions_interval_ms"`
	Chunks               bool  `json:"chunks"`
	SendTimeoutMs        int64 `json:"send_timeout_ms"`
	Compression          string
	Access               string
	Batch                *struct {
		Messages uint
		Bytes    uint
		DelayMs  int64 `json:"delay_ms"`
		KeyBased bool  `json:"key_based"`
	}
	Producer       string
	Texts          []string
	Properties     []map[string]string
	Keys           []*string
	EventTimes     []int64 `json:"event_times"`
	SequenceIds    []int64 `json:"sequence_ids"`
	DeliverAfterMs int64   `json:"deliver_after_ms"`
	Flush          *bool
	Consumer       string
	Message        string
	Cumulative     bool
	To             string
	Takes          *int
}

type unsupported string

func (what unsupported) Error() string { return string(what) }

type verb struct {
	takes   []string // what is not in here is something that the client does not offer
	perform func(arguments) (any, error)
}

var (
	verbs     map[string]verb
	url       string
	token     atomic.Value // what the user shows where it is asked for a token
	client    pulsar.Client
	starting  sync.Mutex
	things    sync.Map // producers, consumers and readers by name
	messages  sync.Map // by "consumer/number"
	waiting   sync.Map // channels by consumer or reader, closed by `take`
	counting  sync.Mutex
	count     int
	writing   sync.Mutex
	output    = json.NewEncoder(os.Stdout)
	positions = map[string]pulsar.SubscriptionInitialPosition{
		"": pulsar.SubscriptionPositionLatest, "Latest": pulsar.SubscriptionPositionLatest, "Earliest": pulsar.SubscriptionPositionEarliest,
	}
	types = map[string]pulsar.SubscriptionType{
		"": pulsar.Exclusive, "Exclusive": pulsar.Exclusive, "Shared": pulsar.Shared, "Failover": pulsar.Failover, "Key_Shared": pulsar.KeyShared,
	}
	accesses = map[string]pulsar.ProducerAccessMode{
		"": pulsar.ProducerAccessModeShared, "Shared": pulsar.ProducerAccessModeShared, "Exclusive": pulsar.ProducerAccessModeExclusive,
		"WaitForExclusive": pulsar.ProducerAccessModeWaitForExclusive,
	}
	compressions = map[string]pulsar.CompressionType{
		"": pulsar.NoCompression, "NONE": pulsar.NoCompression, "LZ4": pulsar.LZ4, "ZLIB": pulsar.ZLib, "ZSTD": pulsar.ZSTD, "SNAPPY": pulsar.SNAPPY,
	}
)

func main() {
	verbs = map[string]verb{
		"begin":    {[]string{"service_url"}, begin},
		"end":      {nil, end},
		"start":    {[]string{"operation_timeout_ms", "keep_alive_ms", "listener_name", "token"}, start},
		"refresh":  {[]string{"token"}, refresh},
		"producer": {[]string{"name", "topic", "batch", "compression", "access", "as", "chunks", "send_timeout_ms", "partitions_interval_ms"}, producer},
		"send":     {[]string{"producer", "texts", "properties", "keys", "event_times", "sequence_ids", "deliver_after_ms", "flush"}, send},
		"consumer": {[]string{
			"name", "subscription", "topic", "pattern", "type", "position", "queue", "as", "nack_delay_ms", "discovery_ms", "partitions_interval_ms",
			"takes",
		}, consumer},
		"reader":               {[]string{"name", "topic", "position", "takes"}, reader},
		"take":                 {[]string{"consumer"}, take},
		"acknowledge":          {[]string{"consumer", "message", "cumulative"}, acknowledge},
		"negative_acknowledge": {[]string{"consumer", "message"}, negativeAcknowledge},
		"seek":                 {[]string{"consumer", "to"}, seek},
		"unsubscribe":          {[]string{"consumer"}, unsubscribe},
		"close":                {[]string{"name"}, closeOne},
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		go perform(slices.Clone(lines.Bytes()))
	}
}

func say(line map[string]any) {
	writing.Lock()
	defer writing.Unlock()
	if err := output.Encode(line); err != nil {
		os.Exit(1)
	}
}

func perform(line []byte) {
	var request struct {
		ID int
		Do string
	}
	var keys map[string]json.RawMessage
	var given arguments
	if err := errors.Join(json.Unmarshal(line, &request), json.Unmarshal(line, &keys), json.Unmarshal(line, &given)); err != nil {
		say(map[string]any{"id": request.ID, "error": err.Error()})
		return
	}
	result, err := answered(request.Do, keys, given)
	var lacking unsupported
	switch {
	case errors.As(err, &lacking):
		say(map[string]any{"id": request.ID, "unsupported": string(lacking)})
	case err != nil:
		say(map[string]any{"id": request.ID, "error": err.Error()})
	default:
		say(map[string]any{"id": request.ID, "ok": true, "result": result})
	}
}

func answered(do string, keys map[string]json.RawMessage, given arguments) (any, error) {
	if do == "hello" {
		return hello(), nil
	}
	asked, ok := verbs[do]
	if !ok {
		return nil, unsupported(do)
	}
	for key := range keys {
		if key != "id" && key != "do" && !slices.Contains(asked.takes, key) {
			return nil, unsupported("option " + key)
		}
	}
	return asked.perform(given)
}

func hello() any {
	version := ""
	if built, ok := debug.ReadBuildInfo(); ok {
		for _, module := range built.Deps {
			if module.Path == "github.com/apache/pulsar-client-go" {
				version = strings.TrimPrefix(module.Version, "v")
			}
		}
	}
	names := []string{}
	for name := range verbs {
		names = append(names, name)
	}
	slices.Sort(names)
	return map[string]any{
		"protocol": 1, "client": "pulsar-client-go", "version": version, "language": "Go",
		"capabilities": []string{"pattern-consumers", "partition-polling", "chunks", "without-flags"}, "verbs": names,
	}
}

func begin(given arguments) (any, error) {
	url = given.ServiceURL
	return nil, nil
}

// end lets go of the client; what it still does to close itself may end with its broker.
func end(arguments) (any, error) {
	starting.Lock()
	defer starting.Unlock()
	if client != nil {
		go client.Close()
	}
	client = nil
	things.Clear()
	messages.Clear()
	return nil, nil
}

func start(given arguments) (any, error) {
	starting.Lock()
	defer starting.Unlock()
	options := pulsar.ClientOptions{
		URL: url, OperationTimeout: milliseconds(given.OperationTimeoutMs), KeepAliveInterval: milliseconds(given.KeepAliveMs),
		ListenerName: given.ListenerName,
	}
	if given.Token != nil {
		token.Store(*given.Token)
		options.Authentication = pulsar.NewAuthenticationTokenFromSupplier(func() (string, error) { return token.Load().(string), nil })
	}
	made, err := pulsar.NewClient(options)
	client = made
	return nil, err
}

func refresh(given arguments) (any, error) {
	token.Store(*given.Token)
	return nil, nil
}

func connected() (pulsar.Client, error) {
	starting.Lock()
	made := client
	starting.Unlock()
	if made != nil {
		return made, nil
	}
	_, err := start(arguments{})
	return client, err
}

func producer(given arguments) (any, error) {
	options := pulsar.ProducerOptions{
		Topic: given.Topic, Name: given.As, DisableBatching: given.Batch == nil, SendTimeout: milliseconds(given.SendTimeoutMs),
		PartitionsAutoDiscoveryInterval: milliseconds(given.PartitionsIntervalMs),
		EnableChunking:                  given.Chunks,
	}
	var known [2]bool
	options.CompressionType, known[0] = compressions[given.Compression]
	options.ProducerAccessMode, known[1] = accesses[given.Access]
	if !known[0] || !known[1] {
		return nil, unsupported(fmt.Sprintf("compression %s with access %s", given.Compression, given.Access))
	}
	if batch := given.Batch; batch != nil {
		options.BatchingMaxMessages, options.BatchingMaxSize = batch.Messages, batch.Bytes
		options.BatchingMaxPublishDelay = time.Minute
		if batch.DelayMs != 0 {
			options.BatchingMaxPublishDelay = milliseconds(batch.DelayMs)
		}
		if batch.KeyBased {
			options.BatcherBuilderType = pulsar.KeyBasedBatchBuilder
		}
	}
	using, err := connected()
	if err != nil {
		return nil, err
	}
	made, err := using.CreateProducer(options)
	if err == nil {
		things.Store(given.Name, made)
	}
	return nil, err
}

func send(given arguments) (any, error) {
	using, err := found[pulsar.Producer](given.Producer)
	if err != nil {
		return nil, err
	}
	type receipt struct {
		number int
		id     string
		err    error
	}
	receipts := make(chan receipt, len(given.Texts))
	for number, text := range given.Texts {
		message := &pulsar.ProducerMessage{Payload: []byte(text), DeliverAfter: milliseconds(given.DeliverAfterMs)}
		if given.Properties != nil {
			message.Properties = given.Properties[number]
		}
		if given.Keys != nil && given.Keys[number] != nil {
			message.Key = *given.Keys[number]
		}
		if given.EventTimes != nil {
			message.EventTime = time.UnixMilli(given.EventTimes[number])
		}
		if given.SequenceIds != nil {
			message.SequenceID = &given.SequenceIds[number]
		}
		using.SendAsync(context.Background(), message, func(id pulsar.MessageID, _ *pulsar.ProducerMessage, err error) {
			if err != nil {
				receipts <- receipt{number, "", err}
			} else {
				receipts <- receipt{number, id.String(), nil}
			}
		})
	}
	if given.Flush != nil && !*given.Flush {
		return nil, nil
	}
	if err := using.FlushWithCtx(context.Background()); err != nil {
		return nil, err
	}
	ids := make([]string, len(given.Texts))
	for range given.Texts {
		one := <-receipts
		if one.err != nil {
			return nil, one.err
		}
		ids[one.number] = one.id
	}
	return map[string]any{"ids": ids}, nil
}

func consumer(given arguments) (any, error) {
	options := pulsar.ConsumerOptions{
		Topic: given.Topic, TopicsPattern: given.Pattern, SubscriptionName: given.Subscription, Name: given.As, ReceiverQueueSize: given.Queue,
		NackRedeliveryDelay: milliseconds(given.NackDelayMs), AutoDiscoveryPeriod: milliseconds(given.PartitionsIntervalMs),
	}
	if given.Pattern != "" {
		options.AutoDiscoveryPeriod = milliseconds(given.DiscoveryMs)
	}
	if given.Subscription == "" {
		options.SubscriptionName = "s"
	}
	var known [2]bool
	options.Type, known[0] = types[given.Type]
	options.SubscriptionInitialPosition, known[1] = positions[given.Position]
	if !known[0] || !known[1] {
		return nil, unsupported(fmt.Sprintf("type %s with position %s", given.Type, given.Position))
	}
	using, err := connected()
	if err != nil {
		return nil, err
	}
	made, err := using.Subscribe(options)
	if err != nil {
		return nil, err
	}
	things.Store(given.Name, made)
	pause := pauseOf(given)
	go func() {
		for {
			pause()
			message, open := <-made.Chan()
			if !open {
				return
			}
			arrived(given.Name, message.Message)
		}
	}()
	return nil, nil
}

func reader(given arguments) (any, error) {
	from := pulsar.LatestMessageID()
	if given.Position == "Earliest" {
		from = pulsar.EarliestMessageID()
	}
	using, err := connected()
	if err != nil {
		return nil, err
	}
	made, err := using.CreateReader(pulsar.ReaderOptions{Topic: given.Topic, StartMessageID: from})
	if err != nil {
		return nil, err
	}
	things.Store(given.Name, made)
	pause := pauseOf(given)
	go func() {
		for {
			pause()
			message, err := made.Next(context.Background())
			if err != nil {
				return
			}
			arrived(given.Name, message)
		}
	}()
	return nil, nil
}

// pauseOf returns what is called before each message is taken: it waits for `take` once as many were taken as `takes` says.
func pauseOf(given arguments) func() {
	if given.Takes == nil {
		return func() {}
	}
	goingOn, left := make(chan struct{}), *given.Takes
	waiting.Store(given.Name, goingOn)
	return func() {
		if left == 0 {
			<-goingOn
		}
		left--
	}
}

func take(given arguments) (any, error) {
	goingOn, ok := waiting.LoadAndDelete(given.Consumer)
	if !ok {
		return nil, fmt.Errorf("%s does not wait", given.Consumer)
	}
	close(goingOn.(chan struct{}))
	return nil, nil
}

func acknowledge(given arguments) (any, error) {
	using, err := found[pulsar.Consumer](given.Consumer)
	message, unknown := arrivedAs(given.Consumer, given.Message)
	if err := errors.Join(err, unknown); err != nil {
		return nil, err
	}
	if given.Cumulative {
		return nil, using.AckCumulative(message)
	}
	return nil, using.Ack(message)
}

func negativeAcknowledge(given arguments) (any, error) {
	using, err := found[pulsar.Consumer](given.Consumer)
	message, unknown := arrivedAs(given.Consumer, given.Message)
	if err := errors.Join(err, unknown); err != nil {
		return nil, err
	}
	using.Nack(message)
	return nil, nil
}

func seek(given arguments) (any, error) {
	using, err := found[interface{ Seek(pulsar.MessageID) error }](given.Consumer)
	if err != nil {
		return nil, err
	}
	switch given.To {
	case "Earliest":
		return nil, using.Seek(pulsar.EarliestMessageID())
	case "Latest":
		return nil, using.Seek(pulsar.LatestMessageID())
	}
	message, err := arrivedAs(given.Consumer, given.To)
	if err != nil {
		return nil, err
	}
	return nil, using.Seek(message.ID())
}

func unsubscribe(given arguments) (any, error) {
	using, err := found[pulsar.Consumer](given.Consumer)
	if err != nil {
		return nil, err
	}
	return nil, using.Unsubscribe()
}

func closeOne(given arguments) (any, error) {
	using, err := found[interface{ Close() }](given.Name)
	if err != nil {
		return nil, err
	}
	things.Delete(given.Name)
	using.Close()
	return nil, nil
}

func arrived(consumer string, message pulsar.Message) {
	counting.Lock()
	count++
	number := fmt.Sprint(count)
	counting.Unlock()
	messages.Store(consumer+"/"+number, message)
	properties := message.Properties()
	if properties == nil {
		properties = map[string]string{}
	}
	say(map[string]any{"event": "message", "detail": map[string]any{
		"consumer": consumer, "message": number, "topic": message.Topic(), "text": string(message.Payload()),
		"properties": properties, "redelivered": message.RedeliveryCount(),
	}})
}

func arrivedAs(consumer string, number string) (pulsar.Message, error) {
	message, ok := messages.Load(consumer + "/" + number)
	if !ok {
		return nil, fmt.Errorf("%s has no message %s", consumer, number)
	}
	return message.(pulsar.Message), nil
}

func found[T any](name string) (T, error) {
	one, _ := things.Load(name)
	using, ok := one.(T)
	if !ok {
		return using, fmt.Errorf("there is no %s", name)
	}
	return using, nil
}

// milliseconds is a duration; 0 is what the client does by itself.
func milliseconds(count int64) time.Duration {
	return time.Duration(count) * time.Millisecond
}
