package verify

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// everywhere bounds how long a write may take to be in every ring, and keyLife how long the key of a test that was broken off stays.
const (
	everywhere = 30 * time.Second
	keyLife    = 5 * time.Minute
)

// store writes at the store's Service; hands the session over to each data centre of this cluster, where it must see what it wrote;
// and waits until the write is in every ring.
func (i *Installation) store(ctx context.Context) (string, error) {
	asking, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	s := &v1alpha1.CausalStore{}
	err := i.Client.Get(asking, i.Store, s)
	if apierrors.IsNotFound(err) {
		return "", fmt.Errorf("there is no CausalStore %s; correct the Helm value test.store", i.Store)
	}
	if err != nil {
		return "", fmt.Errorf("read CausalStore %s: %w", i.Store, err)
	}
	if c := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionReady); c == nil || c.Status != "True" {
		says := "no operator has seen it"
		if c != nil {
			says = c.Message
		}
		return "", fmt.Errorf("%s is not ready: %s; see: kubectl causal status %s -n %s", i.Store, says, i.Store.Name,
			i.Store.Namespace)
	}
	ctx, cancel = context.WithTimeout(ctx, everywhere+askTimeout)
	defer cancel()
	w := i.connect(i.Store.Name)
	defer w.close()
	key, value := "causalstore:verify:"+rand.Text(), rand.Text()
	token, err := w.write(ctx, key, value)
	if err != nil {
		return "", err
	}
	read := 0
	for _, dc := range s.Status.DataCenters {
		if dc.Here {
			if err := i.readAt(ctx, dc.Name, token, key, value); err != nil {
				return "", err
			}
			read++
		}
	}
	return fmt.Sprintf("%s: a write is read in %d data centres by who has its session's token, and is in every ring", i.Store,
		read), w.finish(ctx, key)
}

func (i *Installation) readAt(ctx context.Context, dc, token, key, value string) error {
	r := i.connect(plan.DataCenterName(i.Store.Name, dc))
	defer r.close()
	if err := r.conn.Do(ctx, "CAUSAL", "RESUME", token).Err(); err != nil {
		return r.wrap("CAUSAL RESUME", err)
	}
	got, err := r.conn.Get(ctx, key).Result()
	switch {
	case errors.Is(err, redis.Nil) || err == nil && got != value:
		return fmt.Errorf("at %s: a session that follows the write does not see it: %q; this breaks the promise of the store, please report it", r.address, got)
	case err != nil:
		return r.wrap("GET", err)
	}
	return nil
}

// session is one connection to a Service of the store.
type session struct {
	address   string
	namespace string // of who connects
	client    *redis.Client
	conn      *redis.Conn
}

func (i *Installation) connect(service string) *session {
	s := &session{address: net.JoinHostPort(service+"."+i.Store.Namespace+".svc", strconv.Itoa(plan.PortRedis)),
		namespace: i.Namespace}
	s.client = redis.NewClient(&redis.Options{Addr: s.address, Dialer: i.Dial, PoolSize: 1, MaxRetries: -1, DialTimeout: askTimeout,
		ReadTimeout: everywhere + askTimeout, WriteTimeout: askTimeout,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}})
	s.conn = s.client.Conn()
	return s
}

func (s *session) close() {
	_ = s.conn.Close() // nothing is under way
	_ = s.client.Close()
}

// wrap says what failed, and what it may be if nobody is reached.
func (s *session) wrap(what string, err error) error {
	var unreached net.Error
	if errors.As(err, &unreached) {
		return fmt.Errorf("%s at %s: %w; if NetworkPolicies are enforced, spec.access.namespaces of the store must select namespace %s", what, s.address,
			err, s.namespace)
	}
	return fmt.Errorf("%s at %s: %w", what, s.address, err)
}

// write writes a value, reads it back, and returns the token of its session.
func (s *session) write(ctx context.Context, key, value string) (token string, err error) {
	if err := s.conn.Set(ctx, key, value, keyLife).Err(); err != nil {
		return "", s.wrap("SET", err)
	}
	if got, err := s.conn.Get(ctx, key).Result(); err != nil || got != value {
		return "", s.wrap("GET of its own write", errors.Join(err, fmt.Errorf("it reads %q", got)))
	}
	token, err = s.conn.Do(ctx, "CAUSAL", "TOKEN").Text()
	if err != nil {
		return "", s.wrap("CAUSAL TOKEN", err)
	}
	return token, nil
}

// finish waits until the write is everywhere, and removes it.
func (s *session) finish(ctx context.Context, key string) error {
	n, err := s.conn.Do(ctx, "CAUSAL", "WAIT", "all", everywhere.Milliseconds()).Int()
	if err != nil {
		return s.wrap("CAUSAL WAIT", err)
	}
	if n != 1 {
		return fmt.Errorf("after %s the write is not in every ring; see which is behind: kubectl causal status", everywhere)
	}
	if err := s.conn.Del(ctx, key).Err(); err != nil {
		return s.wrap("DEL", err)
	}
	return nil
}
