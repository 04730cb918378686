package resp

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/lab/capture"
)

// withPassword returns one user with passwords.
func withPassword(name string, passwords ...string) []contract.User {
	u := contract.User{Name: name}
	for _, p := range passwords {
		u.Passwords = append(u.Passwords, contract.HashPassword([]byte(p)))
	}
	return []contract.User{u}
}

func TestEachUserHasItsPasswords(t *testing.T) {
	users := append(withPassword("app", "old", "new"), withPassword("report", "other")...)
	users = append(users, contract.User{Name: "gone", Off: true, Passwords: users[0].Passwords})
	_, address := serve(t, Options{Backend: newMemory(), Users: users})
	p := dial(t, address)
	p.expect(noAuth, "ACL", "WHOAMI")
	p.expect(wrongPass, "AUTH", "old") // there is no default user
	p.expect(wrongPass, "AUTH", "app", "other")
	p.expect(wrongPass, "AUTH", "gone", "old")
	q := dial(t, address)
	for _, c := range [][2]string{{"app", "old"}, {"report", "other"}, {"app", "new"}} {
		q.expect("+OK\r\n", "AUTH", c[0], c[1])
		q.expect("$"+itoa(len(c[0]))+"\r\n"+c[0]+"\r\n", "ACL", "WHOAMI")
	}
	if got := q.do("CLIENT", "INFO"); !strings.Contains(got, " user=app ") {
		t.Errorf("CLIENT INFO: %q", got)
	}
	q.expect("*3\r\n$3\r\napp\r\n$6\r\nreport\r\n$4\r\ngone\r\n", "ACL", "USERS")
	if got := q.do("ACL", "LIST"); strings.Count(got, "#(hidden)") != 5 || !strings.Contains(got, "user gone off") {
		t.Errorf("ACL LIST: %q", got)
	}
	for _, name := range []string{"SETUSER", "DELUSER"} {
		if got := q.do("ACL", name, "app"); !strings.Contains(got, "change the users in the file of users") {
			t.Errorf("ACL %s: %q", name, got)
		}
	}
	q.expect("+RESET\r\n", "RESET")
	q.expect(noAuth, "ACL", "WHOAMI")
}

func TestTheDefaultUserMayNeedNoPasswordWhileOthersDo(t *testing.T) {
	_, address := serve(t, Options{Backend: newMemory(),
		Users: append(withPassword("app", "secret"), contract.User{Name: "default", NoPass: true})})
	p := dial(t, address)
	p.expect("$7\r\ndefault\r\n", "ACL", "WHOAMI")
	p.expect(
		"-ERR AUTH <password> called without any password configured for the default user. Are you sure your "+
			"configuration is correct?\r\n", "AUTH", "x")
	p.expect("+OK\r\n", "AUTH", "default", "anything")
	p.expect(wrongPass, "AUTH", "app", "x")
	p.expect("$7\r\ndefault\r\n", "ACL", "WHOAMI")
	p.expect("+OK\r\n", "AUTH", "app", "secret")
	p.expect("$3\r\napp\r\n", "ACL", "WHOAMI")
	p.expect("+RESET\r\n", "RESET")
	p.expect("$7\r\ndefault\r\n", "ACL", "WHOAMI")
}

func TestNobodyMayConnectIfThereAreNoUsers(t *testing.T) {
	_, address := serve(t, Options{Backend: newMemory(), Users: []contract.User{}})
	p := dial(t, address)
	p.expect(noAuth, "GET", "k")
	p.expect(wrongPass, "AUTH", "")
}

func TestUsersChangeWhileClientsAreConnected(t *testing.T) {
	var log capture.Buffer
	s, address := serve(t, Options{Backend: newMemory(),
		Users:  append(withPassword("app", "old"), withPassword("report", "secret")...),
		Logger: slog.New(slog.NewTextHandler(&log, nil))})
	app, report, nobody := dial(t, address), dial(t, address), dial(t, address)
	app.expect("+OK\r\n", "AUTH", "app", "old")
	report.expect("+OK\r\n", "AUTH", "report", "secret")
	nobody.expect(noAuth, "PING")

	s.SetUsers(append(withPassword("app", "old", "new"), withPassword("report", "secret")...))
	fresh := dial(t, address)
	fresh.expect("+OK\r\n", "AUTH", "app", "new")
	fresh.expect("+OK\r\n", "AUTH", "app", "old")

	s.SetUsers(withPassword("app", "new"))
	report.expectClosed()
	app.expect("+PONG\r\n", "PING")
	app.expect(wrongPass, "AUTH", "app", "old")
	nobody.expect(wrongPass, "AUTH", "report", "secret")
	nobody.expect("+OK\r\n", "AUTH", "app", "new")
	if text := log.String(); strings.Count(text, "user=report") != 1 || strings.Contains(text, "secret") {
		t.Errorf("log: %s", text)
	}

	off := withPassword("app", "new")
	off[0].Off = true
	s.SetUsers(off)
	app.expectClosed()
	s.SetUsers(nil)
	dial(t, address).expect("+PONG\r\n", "PING")
}
