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

// replicationTimeout bounds how long a write may take to be in every ring. keyTTL removes the key of an interrupted
// check.
const (
	replicationTimeout = 30 * time.Second
	keyTTL             = 5 * time.Minute
)

// checkStore writes through the store's Service, resumes the session in each data center of this cluster, where it must
// read its write, and waits until the write is in every ring.
func (i *Installation) checkStore(ctx context.Context) (string, error) {
	requestCtx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	s := &v1alpha1.CausalStore{}
	err := i.Client.Get(requestCtx, i.Store, s)
	if apierrors.IsNotFound(err) {
		return "", fmt.Errorf("CausalStore %s does not exist; correct the Helm value test.store", i.Store)
	}
	if err != nil {
		return "", fmt.Errorf("read CausalStore %s: %w", i.Store, err)
	}
	if c := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionReady); c == nil || c.Status != "True" {
		reason := "no operator has processed it"
		if c != nil {
			reason = c.Message
		}
		return "", fmt.Errorf("%s is not ready: %s; run: kubectl causal status %s -n %s", i.Store, reason, i.Store.Name,
			i.Store.Namespace)
	}
	ctx, cancel = context.WithTimeout(ctx, replicationTimeout+requestTimeout)
	defer cancel()
	if why := unchecked(&s.Spec.Clients); why != "" {
		return fmt.Sprintf("%s is ready; %s", i.Store, why), nil
	}
	how, err := i.access(ctx, s)
	if err != nil {
		return "", err
	}
	w := i.connect(how, i.Store.Name)
	defer w.close()
	key, value := "causalstore:verify:"+rand.Text(), rand.Text()
	token, err := w.write(ctx, key, value)
	if err != nil {
		return "", err
	}
	read := 0
	for _, dc := range s.Status.DataCenters {
		if dc.Here {
			if err := i.readAt(ctx, how, dc.Name, token, key, value); err != nil {
				return "", err
			}
			read++
		}
	}
	return fmt.Sprintf("%s: a write was read in %d data centers with the token of its session, and is in every ring",
		i.Store,
		read), w.waitAndDelete(ctx, key)
}

// readAt resumes the session in a data center and reads its write.
func (i *Installation) readAt(ctx context.Context, how *access, dc, token, key, value string) error {
	r := i.connect(how, plan.DataCenterName(i.Store.Name, dc))
	defer r.close()
	if err := r.conn.Do(ctx, "CAUSAL", "RESUME", token).Err(); err != nil {
		return r.wrap("CAUSAL RESUME", err)
	}
	got, err := r.conn.Get(ctx, key).Result()
	switch {
	case errors.Is(err, redis.Nil) || err == nil && got != value:
		return fmt.Errorf(
			"at %s: a session that resumed the writer's token read %q instead of the write; this violates causal "+
				"consistency, please report it", r.address, got)
	case err != nil:
		return r.wrap("GET", err)
	}
	return nil
}

// session is one connection to a Service of the store.
type session struct {
	address   string
	namespace string // of the client
	client    *redis.Client
	conn      *redis.Conn
}

func (i *Installation) connect(how *access, service string) *session {
	s := &session{address: net.JoinHostPort(service+"."+i.Store.Namespace+".svc", strconv.Itoa(int(how.port))),
		namespace: i.Namespace}
	s.client = redis.NewClient(&redis.Options{Addr: s.address, Dialer: how.dialer(i.Dial), Username: how.user,
		Password: how.password, PoolSize: 1, MaxRetries: -1, DialTimeout: requestTimeout,
		ReadTimeout: replicationTimeout + requestTimeout, WriteTimeout: requestTimeout,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}})
	s.conn = s.client.Conn()
	return s
}

func (s *session) close() {
	_ = s.conn.Close() // no request is in flight
	_ = s.client.Close()
}

// wrap adds to an error what failed, and the likely cause if the store could not be reached.
func (s *session) wrap(what string, err error) error {
	var netErr net.Error
	if errors.As(err, &netErr) {
		return fmt.Errorf(
			"%s at %s: %w; if NetworkPolicies are enforced, spec.access.namespaces of the store must select "+
				"namespace %s", what, s.address,
			err, s.namespace)
	}
	return fmt.Errorf("%s at %s: %w", what, s.address, err)
}

// write writes a value, reads it back, and returns the token of its session.
func (s *session) write(ctx context.Context, key, value string) (token string, err error) {
	if err := s.conn.Set(ctx, key, value, keyTTL).Err(); err != nil {
		return "", s.wrap("SET", err)
	}
	if got, err := s.conn.Get(ctx, key).Result(); err != nil || got != value {
		return "", s.wrap("GET of its own write", errors.Join(err, fmt.Errorf("read %q", got)))
	}
	token, err = s.conn.Do(ctx, "CAUSAL", "TOKEN").Text()
	if err != nil {
		return "", s.wrap("CAUSAL TOKEN", err)
	}
	return token, nil
}

// waitAndDelete waits until the write is in every ring, and deletes the key.
func (s *session) waitAndDelete(ctx context.Context, key string) error {
	n, err := s.conn.Do(ctx, "CAUSAL", "WAIT", "all", replicationTimeout.Milliseconds()).Int()
	if err != nil {
		return s.wrap("CAUSAL WAIT", err)
	}
	if n != 1 {
		return fmt.Errorf(
			"the write is not in every ring after %s; run kubectl causal status to see which ring is behind",
			replicationTimeout)
	}
	if err := s.conn.Del(ctx, key).Err(); err != nil {
		return s.wrap("DEL", err)
	}
	return nil
}
