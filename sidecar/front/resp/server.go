package resp

import (
	"context"
	"fmt"
	"time"

	"github.com/causalstore/causalstore/sidecar/front"
)

// Server serves Redis clients, with one goroutine per connection.
type Server struct {
	*front.Server
	options   Options
	started   time.Time
	context   context.Context // that of front.Server, for sessions
	stats     stats
	keyCounts keyCounts

	httpLog, tlsLog front.LogLimit
}

// NewServer validates the options and returns a server. It accepts no connections until Serve is called.
func NewServer(o Options) (*Server, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{options: o, started: o.Clock()}
	s.Server = front.NewServer(front.Options{Limits: o.Limits.Limits, Users: o.Users, Clock: o.Clock, Logger: o.Logger,
		Metrics: o.Metrics,
		Connect: func(client *front.Client) front.Connection { return newConnection(s, client) },
		Refusal: fmt.Sprintf("-%s\r\n", errMaxClients.Error())})
	s.context = s.Context()
	s.stats.init(o.Clock())
	return s, nil
}
