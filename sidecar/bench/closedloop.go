package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// closedLoop is clients that each wait for an answer, then for a moment, and then ask again. Each has a connection of its
// own to one of the data centres. The moment keeps clients whose data is all near from taking the whole machine, which the
// data centres share here: it stands for what a request costs at its data centre's own limit.
type closedLoop struct {
	addrs   []string
	clients int // spread over addrs
	think   time.Duration
	// rates, if given, bound the operations a second that the clients of each address start together.
	rates   []float64
	records records
	reads   float64 // share of GETs
	popular popularity
	seed    uint64
	// Measuring starts when lead is over and ready has returned, and takes length. Over is called at its end, while the
	// clients still work.
	lead, length time.Duration
	ready, over  func() error
	// window, if given, divides the length for a time series.
	window time.Duration
}

// never is a time that does not come.
const never = math.MaxInt64

// loopRun is a closed loop at work.
type loopRun struct {
	*closedLoop
	begun      time.Time
	start, end atomic.Int64 // of measuring, in nanoseconds since begun
	results    []*siteResult
}

// run lets the clients work. An error reply is counted; a connection that breaks fails the run.
func (l *closedLoop) run(ctx context.Context) (*loopResult, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &loopRun{closedLoop: l, begun: time.Now()}
	r.start.Store(never)
	r.end.Store(never)
	for range l.addrs {
		r.results = append(r.results, newSiteResult(l))
	}
	errs := make([]error, l.clients)
	var all sync.WaitGroup
	for i := range l.clients {
		all.Go(func() {
			if errs[i] = r.work(ctx, i); errs[i] != nil {
				cancel() // the others need not go on
			}
		})
	}
	err := r.measure(ctx)
	if err != nil {
		cancel()
	}
	all.Wait()
	if broken := errors.Join(errs...); broken != nil {
		err = broken // measuring was given up for it
	}
	if err != nil {
		return nil, err
	}
	return &loopResult{sites: r.results, elapsed: time.Duration(r.end.Load() - r.start.Load())}, nil
}

// measure opens and closes the time that counts.
func (r *loopRun) measure(ctx context.Context) error {
	pause := func(d time.Duration) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	call := func(f func() error) error {
		if f == nil {
			return nil
		}
		return f()
	}
	if err := pause(r.lead); err != nil {
		return err
	}
	if err := call(r.ready); err != nil {
		return err
	}
	start := int64(time.Since(r.begun))
	r.start.Store(start)
	if err := pause(r.length); err != nil {
		return err
	}
	err := call(r.over)
	r.end.Store(int64(time.Since(r.begun)))
	return err
}

// work is one client.
func (r *loopRun) work(ctx context.Context, number int) error {
	where := number % len(r.addrs)
	conn, err := net.DialTimeout("tcp", r.addrs[where], 10*time.Second)
	if err != nil {
		return fmt.Errorf("client of %s: %w", r.addrs[where], err)
	}
	defer conn.Close()
	random := rand.New(rand.NewPCG(r.seed, uint64(number)))
	in, request := make([]byte, max(4<<10, len(r.records.value)+256)), []byte(nil)
	every := r.every(where)
	next := time.Duration(random.Int64N(int64(max(r.think, every)) + 1)) // not all at once
	pause := time.NewTimer(next)
	defer pause.Stop()
	for {
		if r.think > 0 || every > 0 {
			select {
			case <-pause.C:
			case <-ctx.Done():
				return nil
			}
		}
		sent := time.Since(r.begun)
		if int64(sent) >= r.end.Load() || ctx.Err() != nil {
			return nil
		}
		isGet, want := random.Float64() < r.reads, byte('$')
		if key := r.popular.draw(random); isGet {
			request = r.records.get(request[:0], key)
		} else {
			request, want = r.records.set(request[:0], key), '+'
		}
		wrong, answer, err := ask(conn, request, want, in)
		if err != nil {
			return fmt.Errorf("client of %s: %w", r.addrs[where], err)
		}
		done := time.Since(r.begun)
		if at := int64(done) - r.start.Load(); at >= 0 && int64(done) < r.end.Load() {
			r.results[where].add(isGet, wrong, answer, time.Duration(at), done-sent)
		}
		pause.Reset(r.wait(&next, every, done))
	}
}

// every is how long a client of an address takes from one operation to the next at least, by the bound of the address; 0 is
// no bound.
func (r *loopRun) every(where int) time.Duration {
	if r.rates == nil || r.rates[where] <= 0 {
		return 0
	}
	clients := (r.clients - where + len(r.addrs) - 1) / len(r.addrs)
	return min(time.Duration(float64(clients)/r.rates[where]*float64(time.Second)), time.Minute)
}

// wait is how long a client pauses: for its thought, and until its next operation is due. What it missed while it waited for
// an answer it does not make up for.
func (r *loopRun) wait(next *time.Duration, every, done time.Duration) time.Duration {
	pause := r.think
	if every > 0 {
		*next = max(*next+every, done-every)
		pause = max(pause, *next-done)
	}
	return pause
}

// ask sends one request and waits for its reply.
func ask(conn net.Conn, request []byte, want byte, in []byte) (wrong bool, answer string, err error) {
	if err := conn.SetDeadline(time.Now().Add(stall)); err != nil {
		return false, "", err
	}
	if _, err := conn.Write(request); err != nil {
		return false, "", err
	}
	for got := 0; ; {
		if got == len(in) {
			return false, "", errors.New("a reply does not fit the buffer")
		}
		n, err := conn.Read(in[got:])
		if err != nil {
			return false, "", err
		}
		got += n
		replies, bad, used, err := skipReplies(in[:got], 1, want)
		if err != nil {
			return false, "", err
		}
		if replies == 1 {
			return bad > 0, string(in[:min(used, 120)*bad]), nil
		}
	}
}
