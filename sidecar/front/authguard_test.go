package front

import (
	"net/netip"
	"testing"
	"time"
)

func TestAnAddressGainsNothingFromManyConnections(t *testing.T) {
	here, there := netip.MustParsePrefix("10.0.0.1/32"), netip.MustParsePrefix("10.0.0.2/32")
	g := authGuard{addresses: map[netip.Prefix]*authBudget{}}
	now := time.Now()
	wrong, right := func() bool { return false }, func() bool { return true }
	atOnce, waiting, refused := 0, 0, 0
	for range 10_000 {
		switch _, wait, ok := g.attempt(here, now, wrong); {
		case !ok:
			refused++
		case wait > 0:
			waiting++
		default:
			atOnce++
		}
	}
	if most := int(maxAuthWait.Seconds() * authPerSecond); atOnce != authBurst || waiting < most-1 ||
		waiting > most+1 || atOnce+waiting+refused != 10_000 {
		t.Errorf("%d at once, %d after a wait, %d refused", atOnce, waiting, refused)
	}
	if matches, wait, ok := g.attempt(there, now, right); !matches || wait != 0 || !ok {
		t.Error("another address is not affected")
	}
	if _, _, ok := g.attempt(here, now, right); ok {
		t.Error("the right password must not be told from a wrong one before its turn")
	}
	later := now.Add(time.Minute)
	for range 1000 {
		if matches, wait, ok := g.attempt(here, later, right); !matches || wait != 0 || !ok {
			t.Fatal("right passwords have no limit")
		}
	}
}

func TestTheGuardRemembersABoundedNumberOfAddresses(t *testing.T) {
	g := authGuard{addresses: map[netip.Prefix]*authBudget{}}
	now := time.Now()
	for i := range 3 * maxAuthAddresses {
		address := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 32)
		g.attempt(address, now.Add(time.Duration(i)*time.Microsecond), func() bool { return false })
		if len(g.addresses) > maxAuthAddresses {
			t.Fatalf("%d addresses after %d", len(g.addresses), i+1)
		}
	}
}

func TestTheGuardForgetsFirstWhoHasTheWholeBudgetAgain(t *testing.T) {
	g := authGuard{addresses: map[netip.Prefix]*authBudget{}}
	now, wrong := time.Now(), func() bool { return false }
	address := func(i int) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 32)
	}
	for range authBurst {
		g.attempt(address(0), now, wrong)
	}
	for i := 1; i < maxAuthAddresses; i++ {
		g.attempt(address(i), now, wrong)
	}
	g.attempt(address(maxAuthAddresses), now.Add(authSweep), wrong)
	if len(g.addresses) != 2 || g.addresses[address(0)] == nil || g.addresses[address(maxAuthAddresses)] == nil {
		t.Errorf("%d addresses are remembered; want the one that guessed %d times and the new one",
			len(g.addresses), authBurst)
	}
}
