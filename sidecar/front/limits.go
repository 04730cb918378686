package front

import (
	"fmt"
	"time"

	"github.com/causalstore/causalstore/contract"
)

// Limits bound what clients can store, and make the sidecar use together. Zero fields take the default.
type Limits struct {
	// MaxKeyBytes is the longest key. Default, and at most, contract.MaxKeyBytes.
	MaxKeyBytes int
	// MaxValueBytes is the longest value. Default, and at most, contract.MaxValueBytes.
	MaxValueBytes int
	// MaxClientBytes bounds what all clients together have sent or queued, are writing, and have not read yet, with
	// ConnectionBytes for each of them. Beyond it, the connection that takes most is closed. Default 512 MiB.
	MaxClientBytes int
	// MaxClients is the number of connections. Default 10000.
	MaxClients int
	// WriteTimeout is how long a client may accept no byte of its replies before it is disconnected. Default 1 minute.
	WriteTimeout time.Duration
}

// WithDefaults returns limits without zero fields.
func (l Limits) WithDefaults() Limits {
	for _, f := range []struct {
		field *int
		value int
	}{
		{&l.MaxKeyBytes, contract.MaxKeyBytes}, {&l.MaxValueBytes, contract.MaxValueBytes},
		{&l.MaxClientBytes, 512 << 20}, {&l.MaxClients, 10000},
	} {
		if *f.field == 0 {
			*f.field = f.value
		}
	}
	if l.WriteTimeout == 0 {
		l.WriteTimeout = time.Minute
	}
	return l
}

// Check returns what is wrong with the limits, if anything.
func (l Limits) Check() error {
	if l.WriteTimeout < 0 {
		return fmt.Errorf("limit WriteTimeout is %s; set a positive duration", l.WriteTimeout)
	}
	return CheckLimits(
		Limit{"MaxKeyBytes", l.MaxKeyBytes, contract.MaxKeyBytes},
		Limit{"MaxValueBytes", l.MaxValueBytes, contract.MaxValueBytes},
		Limit{"MaxClientBytes", l.MaxClientBytes, 1 << 40}, Limit{"MaxClients", l.MaxClients, 1 << 30})
}

// Limit is one limit, with the greatest value that it may have.
type Limit struct {
	Name       string
	Value, Max int
}

// CheckLimits returns an error for the first limit that is out of its range.
func CheckLimits(limits ...Limit) error {
	for _, l := range limits {
		if l.Value < 1 || l.Value > l.Max {
			return fmt.Errorf("limit %s is %d; set it between 1 and %d", l.Name, l.Value, l.Max)
		}
	}
	return nil
}
