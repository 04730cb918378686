package transport

import (
	"math"
	"sync"
)

// budget is bytes of memory that connections share. One identity gets a quarter at most, or one frame of the largest
// size if that is more.
type budget struct {
	total, most int64

	mu      sync.Mutex
	used    int64
	usedBy  map[string]int64
	changed chan struct{} // closed when something was released
}

func newBudget(total int64) *budget {
	return &budget{total: total, most: min(total, max(total/4, maxFrame)), usedBy: map[string]int64{},
		changed: make(chan struct{})}
}

// newShares returns a budget of which each identity has a share of its own.
func newShares(most int64) *budget {
	return &budget{total: math.MaxInt64, most: most, usedBy: map[string]int64{}, changed: make(chan struct{})}
}

// changes returns a channel that is closed when something is released.
func (b *budget) changes() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changed
}

// account is what one connection uses of a budget beyond connectionAllowance, which it has for itself.
type account struct {
	b    *budget
	who  string
	held int64 // guarded by b.mu
}

// connectionAllowance is what each connection may use without asking.
const connectionAllowance = 16 << 10

func (b *budget) account(who string) *account { return &account{b: b, who: who} }

// room returns how many bytes more the account could hold now, without what each connection has for itself.
func (a *account) room() int64 {
	a.b.mu.Lock()
	defer a.b.mu.Unlock()
	return min(a.b.total-a.b.used, a.b.most-a.b.usedBy[a.who])
}

// try makes the account hold what is due for a use of n bytes, and reports whether it does.
func (a *account) try(n int64) bool {
	a.b.mu.Lock()
	defer a.b.mu.Unlock()
	due := max(0, n-connectionAllowance)
	more := due - a.held
	if more > 0 && (a.b.used+more > a.b.total || a.b.usedBy[a.who]+more > a.b.most) {
		return false
	}
	if more == 0 {
		return true
	}
	a.held = due
	a.b.used += more
	if a.b.usedBy[a.who] += more; a.b.usedBy[a.who] == 0 {
		delete(a.b.usedBy, a.who)
	}
	if more < 0 {
		close(a.b.changed)
		a.b.changed = make(chan struct{})
	}
	return true
}
