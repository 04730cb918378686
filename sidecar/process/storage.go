package process

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/sidecar/storage"
	"github.com/causalstore/causalstore/sidecar/storage/embedded"
	"github.com/causalstore/causalstore/sidecar/storage/redis"
)

// openRetryInterval is the pause between attempts to open a storage that is not available yet.
const openRetryInterval = 500 * time.Millisecond

// awaitStore opens the storage. It waits for a server that cannot be reached yet, as when both start together.
func (p *process) awaitStore(ctx context.Context) (storage.Store, error) {
	last := ""
	for {
		s, err := p.openStore(ctx)
		if err == nil || !isTransient(err) {
			return s, err
		}
		p.health.setWaiting(err)
		if last != err.Error() {
			last = err.Error()
			p.log.Warn("waiting for the storage", "error", err)
		}
		select {
		case <-time.After(openRetryInterval):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// isTransient reports whether opening a store may succeed later.
func isTransient(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) || strings.Contains(err.Error(), "loading")
}

// acceptLossFile is a file beside the data of a storage with which a person accepts that it has lost some.
const acceptLossFile = "accept-loss"

// engine opens the storage of a middleman.
type engine struct {
	dir  string // where acceptLossFile is looked for; "": nowhere
	open func() (storage.Store, error)
	// renew starts over in place of a storage that is damaged, with what is left of it if that is known to be all but
	// some keys.
	renew func() (storage.Store, error)
	// keep makes a storage that was renewed have whatever can be read of the damaged one.
	keep func(storage.Store) error
}

// openStore opens the storage. One that has lost something starts over, as one that gets its data from another ring, or
// from another member. If there is neither, or nobody has the data, it is for a person to decide.
func (p *process) openStore(ctx context.Context) (storage.Store, error) {
	e, err := p.engine(ctx)
	if err != nil {
		return nil, err
	}
	accepted := p.hasAcceptedLoss(e)
	s, err := e.open()
	switch isLost := errors.Is(err, storage.ErrDataLost); {
	case isLost && (p.isRefilled() || accepted):
		p.log.Error("the storage is damaged; what it has lost comes from another ring or member", "error", err)
		s, err = e.renew()
	case isLost:
		return nil, inState(contract.StateDataLost, fmt.Errorf("data lost: %w; there is no other ring to get it from. "+
			"Put back the data as they were when the process stopped, from a mirror or a volume snapshot taken since. "+
			"To go on without what is lost, create the file %s (docs/disasters.md, Going on without what is lost)", err,
			filepath.Join(e.dir, acceptLossFile)))
	}
	if err != nil || !accepted {
		return s, err
	}
	if err := p.acceptLoss(ctx, e, s); err != nil {
		return nil, errors.Join(fmt.Errorf("accept the loss of data: %w", err), s.Close())
	}
	return s, nil
}

// hasAcceptedLoss reports whether a person has accepted that the storage has lost data. That is not for one of several
// members: see recover.
func (p *process) hasAcceptedLoss(e engine) bool {
	if e.dir == "" || p.o.Settings.members() > 1 {
		return false
	}
	_, err := os.Stat(filepath.Join(e.dir, acceptLossFile))
	return err == nil
}

// acceptLoss makes the storage go on with what it has, and removes the file with which a person has said so.
func (p *process) acceptLoss(ctx context.Context, e engine, s storage.Store) error {
	err := node.AcceptStorageLoss(ctx, s, func() error { return e.keep(s) })
	switch {
	case errors.Is(err, node.ErrNoLoss):
		p.log.Warn("nothing is to be accepted", "file", filepath.Join(e.dir, acceptLossFile), "reason", err)
	case err != nil:
		return err
	default:
		p.log.Warn("going on with what is left in the storage, since somebody has accepted that data are lost")
	}
	return os.Remove(filepath.Join(e.dir, acceptLossFile))
}

// isRefilled reports whether a storage that has lost its data gets them from elsewhere.
func (p *process) isRefilled() bool { return len(p.topo().Rings) > 1 || p.o.Settings.members() > 1 }

// isDamagedForPeople reports whether what is left of a damaged storage is kept until a person removes it: nobody else
// may have it.
func (p *process) isDamagedForPeople() bool {
	t := p.topo()
	return len(t.Rings) == 1 || t.Resharding().Has(t.RingOf(p.self.DC))
}

// removeDamaged removes what was kept of a damaged storage, when this one has all data again.
func (p *process) removeDamaged(s storage.Store) {
	if e, ok := s.(*embedded.Store); ok && !p.isDamagedForPeople() {
		if err := e.RemoveDamaged(); err != nil {
			p.log.Warn("the storage has its data again", "error", err)
		}
	}
}

// spareDamaged lets what was kept of a damaged storage give way if the disk is full: others have it.
func (p *process) spareDamaged(s storage.Store) {
	if e, ok := s.(*embedded.Store); ok && !p.isDamagedForPeople() {
		e.SpareDamaged()
	}
}

func (p *process) engine(ctx context.Context) (engine, error) {
	c := &p.o.Settings.Config
	checkOwner := func(s storage.Store) error { return identityOf(p.topo(), p.self).checkStore(ctx, s) }
	mark := func(s storage.Store, rest bool, missing causal.KeyRanges) ([]storage.Meta, error) {
		return node.LossMeta(ctx, s, p.o.Settings.isReplicated(), rest, missing)
	}
	if c.Storage.Engine == contract.EngineEmbedded {
		dir := c.Storage.Embedded.Dir
		o := embedded.Options{CacheBytes: int64(c.Storage.Embedded.CacheBytes), Logger: p.log, Stop: ctx.Done(),
			CheckOwner: checkOwner, KeepsRest: !p.o.Settings.isReplicated(),
			OnFull:  func(err error) { p.health.setWaiting(inState(contract.StateStorageFull, err)) },
			OnFatal: func(err error) { p.endAtOnce(fmt.Errorf("the storage in %s cannot go on: %w", dir, err)) }}
		return engine{dir: dir,
			open: func() (storage.Store, error) { return storeOf(embedded.Open(dir, o)) },
			renew: func() (storage.Store, error) {
				return storeOf(embedded.Renew(dir, o, func(s storage.Store, r embedded.Rest) ([]storage.Meta, error) {
					p.logRest(r)
					return mark(s, r.Known, r.Missing)
				}))
			},
			keep: func(s storage.Store) error {
				n, err := s.(*embedded.Store).MergeDamaged(ctx, o)
				p.log.Warn("merged what can be read of the damaged storage", "records", n, "error", err)
				return err
			},
		}, nil
	}
	o, err := p.redisOptions()
	if err != nil {
		return engine{}, err
	}
	o.CheckOwner = checkOwner
	return engine{dir: c.DataDir,
		open: func() (storage.Store, error) { return storeOf(redis.Open(ctx, o)) },
		renew: func() (storage.Store, error) {
			return storeOf(redis.Renew(ctx, o, func(s storage.Store) ([]storage.Meta, error) {
				return mark(s, false, nil)
			}))
		},
		keep: func(s storage.Store) error {
			n, err := s.(*redis.Store).DropDamaged(ctx)
			p.log.Warn("removed what is damaged in the storage", "records", n, "error", err)
			return err
		},
	}, nil
}

// logRest says what is left of a damaged storage.
func (p *process) logRest(r embedded.Rest) {
	if r.Known {
		p.log.Warn("the storage lacks keys of some ranges, and has all others", "lost", describeRanges(r.Missing),
			"records", r.Records)
		return
	}
	p.log.Warn(
		"nothing tells what the storage lacks, so all of it counts as lost; what is left is kept until another ring "+
			"has all data", "reason", r.Why)
}

// storeOf returns no storage.Store with an error: a nil pointer in it would not be nil.
func storeOf[S storage.Store](s S, err error) (storage.Store, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (p *process) redisOptions() (redis.Options, error) {
	set := p.o.Settings
	c := set.Config.Storage.Redis
	o := redis.Options{
		Addr: c.Address, Socket: c.Socket, Username: c.Username, Password: set.storagePassword, DB: c.Database,
		AllowUnsafe: c.AllowUnsafe, WaitReplicas: c.WaitReplicas, Logger: p.log, Watermark: p.redisWatermark(),
	}
	if c.TLS == nil {
		return o, nil
	}
	var err error
	if o.TLS, err = storageTLS(c.TLS); err != nil {
		err = fmt.Errorf("storage.redis.tls: %w", err)
	}
	return o, err
}

// redisWatermark returns the path of the watermark of a Redis; "": this process has no disk for it.
func (p *process) redisWatermark() string {
	dir, dc := p.o.Settings.Config.DataDir, p.topo().DCs[p.self.DC].Name
	path := filepath.Join(dir, fmt.Sprintf("storage-%s-%d-%d.acknowledged", dc, p.self.Index, max(p.self.Member, 1)))
	err := errors.New("dataDir is not configured")
	if dir != "" {
		if err = os.MkdirAll(dir, 0o700); err == nil {
			err = isWritable(dir)
		}
	}
	if _, statErr := os.Stat(path); err != nil && statErr != nil {
		p.log.Warn("without a writable dataDir, it is not noticed at a start if Redis has lost the end of its log; "+
			"give a folder on a disk that outlives the process", "error", err)
		return ""
	}
	return path
}

// isWritable returns why files cannot be created in a directory.
func isWritable(dir string) error {
	f, err := os.CreateTemp(dir, ".writable-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

func storageTLS(files *contract.TLS) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: files.ServerName}
	if files.CA != "" {
		pem, err := os.ReadFile(files.CA)
		if err != nil {
			return nil, err
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate in PEM", files.CA)
		}
	}
	if files.Cert != "" {
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
			return &pair, err
		}
		if _, err := c.GetClientCertificate(nil); err != nil {
			return nil, err
		}
	}
	return c, nil
}
