package local

import (
	"errors"
	"fmt"
	"math"
	"net"
	"reflect"
	"runtime/debug"
	"syscall"

	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/sidecar/front/resp"
	"github.com/causalstore/causalstore/sidecar/metrics"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/sidecar/token"
	"github.com/causalstore/causalstore/sidecar/transport"
	"github.com/causalstore/causalstore/topology"
)

// MaxSidecars is the greatest number of sidecars of a data center here.
const MaxSidecars = 16

// redisFront is a sidecar of a data center with its Redis port.
type redisFront struct {
	dc       topology.DC
	number   int // from 0
	sidecar  *node.Sidecar
	server   *resp.Server
	commands *metrics.Commands
	addr     string
	ended    chan error
}

// setSidecars validates the number of sidecars and their ports.
func (o *Options) setSidecars() error {
	if o.Sidecars == 0 {
		o.Sidecars = 1
	}
	if o.Sidecars < 1 || o.Sidecars > MaxSidecars {
		return fmt.Errorf("%d sidecars of each data center: use 1 to %d", o.Sidecars, MaxSidecars)
	}
	if last := o.Port + o.Sidecars*len(o.Topology.DCs) - 1; o.Port != 0 && last > math.MaxUint16 {
		return fmt.Errorf("the Redis ports would be %d to %d, and the last port is %d: use a lower first port, or 0 "+
			"for free ports", o.Port, last, math.MaxUint16)
	}
	return nil
}

// startFronts starts the sidecars of all data centers and their listeners.
func (d *Deployment) startFronts() error {
	for dc := range d.topo.DCs {
		for number := range d.o.Sidecars {
			f, err := d.startFront(topology.DC(dc), number)
			if err != nil {
				return err
			}
			d.fronts = append(d.fronts, f)
		}
	}
	return nil
}

// frontsOf returns the sidecars of a data center.
func (d *Deployment) frontsOf(dc topology.DC) []*redisFront {
	return d.fronts[int(dc)*d.o.Sidecars : (int(dc)+1)*d.o.Sidecars]
}

// clientLimits shares two fifths of the memory limit of this process, if it has one, between the clients of all
// sidecars.
func (d *Deployment) clientLimits() (l resp.Limits) {
	if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
		l.MaxClientBytes = max(16<<20, int(limit)/5*2/(len(d.topo.DCs)*d.o.Sidecars))
	}
	return l
}

// startFront starts a sidecar of a data center and its listener.
func (d *Deployment) startFront(dc topology.DC, number int) (*redisFront, error) {
	cfg, limits := d.sessionConfig(dc), d.clientLimits()
	if limits.MaxClientBytes > 0 {
		cfg.MaxMGetBytes, cfg.MaxAheadBytes = limits.MaxClientBytes/2, limits.MaxClientBytes/4
	}
	l, err := d.listen(dc, number)
	if err != nil {
		return nil, err
	}
	f := &redisFront{dc: dc, number: number, addr: l.Addr().String(), commands: metrics.NewCommands(),
		ended: make(chan error, 1)}
	f.sidecar = node.NewSidecar(node.SidecarOptions{Config: cfg, Clock: d.clock, Net: d.net, Scope: d.o.Scope,
		Tokens: token.NewKeyed(d.o.TokenKey)})
	if err := d.net.Register(f.sidecar.ID(), d.observer.sidecar(f.sidecar.Handle)); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	d.net.Watch(transport.Watcher{Up: f.sidecar.LinkUp, Down: f.sidecar.LinkDown, Node: f.sidecar.ID(),
		Unsent: f.sidecar.Unsent})
	d.ticker.Add(f.sidecar)
	f.server, err = resp.NewServer(resp.Options{Backend: f.sidecar, Logger: d.o.Logger, Metrics: f.commands,
		Limits: limits})
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	go func() { f.ended <- f.server.Serve(l) }()
	return f, nil
}

// listen listens for the Redis clients of a sidecar.
func (d *Deployment) listen(dc topology.DC, number int) (net.Listener, error) {
	port := d.o.Port
	if port != 0 {
		port += number*len(d.topo.DCs) + int(dc)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(d.o.Host, fmt.Sprint(port)))
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("listen for Redis clients of %s: %w; stop what uses that port, or choose another first "+
			"port (0: any free ones)", d.topo.DCs[dc].Name, err)
	case err != nil:
		return nil, fmt.Errorf("listen for Redis clients of %s: %w", d.topo.DCs[dc].Name, err)
	}
	return l, nil
}

// addStats adds counters to a sum.
func addStats(sum *session.Stats, s session.Stats) {
	to, from := reflect.ValueOf(sum).Elem(), reflect.ValueOf(s)
	for i := range to.NumField() {
		to.Field(i).SetUint(to.Field(i).Uint() + from.Field(i).Uint())
	}
}
