package canary

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/causalstore/causalstore/history"
	"github.com/causalstore/causalstore/lab/load"
)

// Shares of the operations of a session. The others are SET.
const (
	getShare  = 0.5
	mgetShare = 0.1
	mgetKeys  = 3
	// statusEvery is the number of operations after which a session asks whether it is bound.
	statusEvery = 5
	// probeInterval is the time between two writes whose completion is measured.
	probeInterval = time.Second
)

// session is one connection at a time. A front has a session for each connection, so after a lost one the name changes.
// If all connections of a canary are one session, that changes its name whenever one of them is made: the sidecar may
// have started again, with another session. The process of an operation is its connection.
type session struct {
	canary     *Canary
	name       string
	random     *rand.Rand
	generation int
	writes     int
	client     *redis.Client
	conn       *redis.Conn
	replied    bool
}

func (s *session) open() {
	c := &s.canary.config
	s.client = redis.NewClient(&redis.Options{
		Addr: c.Addr, Username: c.User, Password: c.Password, TLSConfig: c.TLS, Protocol: 3, PoolSize: 1,
		MaxRetries: -1, DialerRetries: 1, // a retry would be another operation
		DialTimeout: c.Timeout, ReadTimeout: c.Timeout, WriteTimeout: c.Timeout,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	s.conn = s.client.Conn()
}

func (s *session) close() {
	_ = s.conn.Close() // the operations have reported whatever an error could tell
	_ = s.client.Close()
}

// renew replaces a connection that is lost, or whose next reply may belong to an earlier command.
func (s *session) renew() {
	s.close()
	s.canary.noteBound(s.name, false, time.Now().UnixNano(), time.Now().UnixNano()) // its session ends
	if s.replied {
		s.generation++
		s.replied = false
	}
	s.open()
}

// names returns the names of the session and the process of an operation that begins now.
func (s *session) names() (session, process string) {
	if !s.canary.config.OneSession {
		name := fmt.Sprintf("%s#%d", s.name, s.generation)
		return name, name
	}
	generation := s.canary.generation.Load()
	return fmt.Sprintf("%s#%d", s.canary.incarnation, generation), fmt.Sprintf("%s#%d", s.name, generation)
}

// work makes operations at the rate of the session until ctx ends.
func (s *session) work(ctx context.Context) {
	defer s.close()
	c := &s.canary.config
	interval := time.Duration(float64(time.Second) * float64(c.Sessions) / c.Rate)
	for n := 1; pause(ctx, time.Duration(float64(interval)*(0.5+s.random.Float64()))); n++ {
		good := s.operate()
		if good && n%statusEvery == 0 {
			good = s.askStatus()
		}
		if !good {
			s.renew()
		}
	}
}

// operate makes one operation and records it. It reports whether the connection is still usable. The operation does not
// end with the canary: its outcome would be unknown without need.
func (s *session) operate() bool {
	op := history.Op{Key: s.key()}
	switch p := s.random.Float64(); {
	case p < mgetShare:
		op.Kind, op.Key = history.MGet, ""
		for _, i := range s.random.Perm(s.canary.config.Keys)[:min(mgetKeys, s.canary.config.Keys)] {
			op.Reads = append(op.Reads, history.Read{Key: s.canary.key(i)})
		}
	case p < mgetShare+getShare:
		op.Kind = history.Get
	default:
		op.Kind = history.Put
	}
	return s.execute(&op)
}

func (s *session) key() string { return s.canary.key(s.random.IntN(s.canary.config.Keys)) }

// connect makes sure that there is a connection, if all connections are one session. It begins another generation of
// that session once there is a new connection: what was named after the earlier one was sent before, so no generation
// has operations of two sidecars.
func (s *session) connect(ctx context.Context) error {
	if !s.canary.config.OneSession || s.replied {
		return nil
	}
	if err := s.conn.Ping(ctx).Err(); err != nil {
		return err
	}
	s.replied = true
	s.canary.generation.Add(1)
	return nil
}

// execute sends one operation and CAUSAL LAST, which tells its version, in one pipeline.
func (s *session) execute(op *history.Op) (good bool) {
	ctx := context.Background()
	op.Start = time.Now().UnixNano()
	err := s.connect(ctx)
	op.Session, op.Process = s.names()
	op.DC = s.canary.config.DataCenter
	if op.Kind == history.Put {
		s.writes++
		op.Value = s.canary.signer.value(op.Key, op.Process, s.writes)
	}
	if err != nil {
		op.End = time.Now().UnixNano()
		s.canary.record(op, err)
		return false
	}
	pipe := s.conn.Pipeline()
	var reply redis.Cmder
	switch op.Kind {
	case history.Put:
		reply = pipe.Set(ctx, op.Key, op.Value, s.canary.config.TTL)
	case history.Get:
		reply = pipe.Get(ctx, op.Key)
	default:
		keys := make([]string, len(op.Reads))
		for i, r := range op.Reads {
			keys[i] = r.Key
		}
		reply = pipe.MGet(ctx, keys...)
	}
	last := pipe.Do(ctx, "CAUSAL", "LAST")
	op.Start = time.Now().UnixNano()
	_, _ = pipe.Exec(ctx) // errors are in the commands
	op.End = time.Now().UnixNano()
	err = fill(op, reply)
	if err == nil && op.Kind != history.MGet { // an MGET has one version per key
		op.Version, _ = versionOf(last) // without a version the checker concludes less, and nothing wrong
	}
	s.canary.record(op, err)
	good = load.Answered(reply.Err()) && load.Answered(last.Err())
	s.replied = s.replied || load.Answered(reply.Err())
	return good
}

// fill derives the outcome of an operation from its reply, and returns the error that it failed with.
func fill(op *history.Op, reply redis.Cmder) error {
	err := reply.Err()
	if errors.Is(err, redis.Nil) && op.Kind == history.Get {
		op.OK, op.Missing = true, true
		return nil
	}
	if err != nil {
		op.Unknown = op.Kind == history.Put && !load.HadNoEffect(err)
		return err
	}
	op.OK = true
	switch reply := reply.(type) {
	case *redis.StringCmd:
		op.Value = reply.Val()
	case *redis.SliceCmd:
		for i := range min(len(op.Reads), len(reply.Val())) {
			value, found := reply.Val()[i].(string)
			op.Reads[i].Value, op.Reads[i].Missing = value, !found
		}
	}
	return nil
}

// askStatus asks whether the session is bound.
func (s *session) askStatus() bool {
	start := time.Now().UnixNano()
	reply, err := s.conn.Do(context.Background(), "CAUSAL", "STATUS").Result()
	if err != nil {
		return load.Answered(err)
	}
	fields, _ := reply.(map[any]any)
	s.canary.noteBound(s.name, fields["bound"] == "yes", start, time.Now().UnixNano())
	return true
}

// probe writes, and waits until the write is in every ring, again and again until ctx ends.
func (s *session) probe(ctx context.Context) {
	defer s.close()
	for pause(ctx, probeInterval) {
		op := history.Op{Kind: history.Put, Key: s.key()}
		good := s.execute(&op)
		sample := Sample{Kind: Complete, Start: op.Start, End: op.End}
		if good && op.OK {
			sample.OK, good = s.awaitComplete()
			sample.End = time.Now().UnixNano()
		}
		s.canary.sample(sample)
		if !good {
			s.renew()
		}
	}
}

// awaitComplete reports whether the last write of the session is in every ring before half of the timeout has passed,
// and whether the connection is still usable.
func (s *session) awaitComplete() (complete, good bool) {
	n, err := s.conn.Do(context.Background(), "CAUSAL", "WAIT", "all",
		max(s.canary.config.Timeout.Milliseconds()/2, 1)).Int()
	return err == nil && n == 1, load.Answered(err)
}

// pause waits, and reports false if ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
