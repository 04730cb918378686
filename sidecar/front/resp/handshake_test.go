package resp

import (
	"strings"
	"testing"
)

const (
	wrongPass = "-WRONGPASS invalid username-password pair or user is disabled.\r\n"
	noAuth    = "-NOAUTH Authentication required.\r\n"
)

func TestPasswordIsRequired(t *testing.T) {
	_, address := serve(t, Options{Backend: newMemory(), Users: withPassword("default", "secret")})
	p := dial(t, address)
	p.expect(noAuth, "GET", "k")
	p.expect(noAuth, "PING")
	p.expect("-ERR unknown command 'NOSUCH', with args beginning with: \r\n", "NOSUCH")
	p.expect("-ERR wrong number of arguments for 'get' command\r\n", "GET")
	p.expect(wrongPass, "AUTH", "wrong")
	p.expect(wrongPass, "AUTH", "other", "secret")
	p.expect(wrongPass, "HELLO", "3", "AUTH", "default", "wrong")
	if got := p.do("HELLO", "3"); !strings.HasPrefix(got,
		"-NOAUTH HELLO must be called with the client already authenticated") {
		t.Errorf("HELLO: %q", got)
	}
	p.expect("+OK\r\n", "AUTH", "secret")
	p.expect("$-1\r\n", "GET", "k")
	p.expect(wrongPass, "AUTH", "wrong")
	p.expect("$-1\r\n", "GET", "k")
	p.expect("+RESET\r\n", "RESET")
	p.expect(noAuth, "GET", "k")
	p.expect("+OK\r\n", "AUTH", "default", "secret")
	p.expect("$-1\r\n", "GET", "k")
	p.expect("+OK\r\n", "QUIT")
	p.expectClosed()
}

func TestConfiguredUsernameIsRequired(t *testing.T) {
	_, address := serve(t, Options{Backend: newMemory(), Users: withPassword("app", "secret")})
	p := dial(t, address)
	p.expect(wrongPass, "AUTH", "secret")
	p.expect(wrongPass, "AUTH", "default", "secret")
	if got := p.do("HELLO", "3", "AUTH", "app", "secret", "SETNAME", "worker"); !strings.HasPrefix(got,
		"%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n") {
		t.Errorf("HELLO: %q", got)
	}
	p.expect("$6\r\nworker\r\n", "CLIENT", "GETNAME")
	p.expect("_\r\n", "GET", "k")
}

func TestHelloRepliesLikeRedis(t *testing.T) {
	socket := redis(t)
	_, address := serve(t, Options{Backend: newMemory()})
	for _, proto := range []string{"2", "3"} {
		shape := func(address string) string {
			reply := dial(t, address).do("HELLO", proto)
			before, rest, _ := strings.Cut(reply, "$2\r\nid\r\n")
			_, after, _ := strings.Cut(rest, "\r\n")
			return before + after
		}
		if theirs, ours := shape(socket), shape(address); theirs != ours {
			t.Errorf("redis: %q\n ours: %q", theirs, ours)
		}
	}
}

func TestUnsupportedCommandsAreRefused(t *testing.T) {
	_, address := serve(t, Options{Backend: newMemory()})
	p := dial(t, address)
	for want, args := range map[string][]string{
		"index is out of range":        {"SELECT", "16"},
		"OBJECT IDLETIME is not supp":  {"OBJECT", "IDLETIME", "k"},
		"SWAPDB is not supported":      {"swapdb", "0", "1"},
		"there are no scripts":         {"EVAL", "return 1", "0"},
		"TRACKING is not supported":    {"CLIENT", "TRACKING", "ON"},
		"CONFIG SET is not supported":  {"CONFIG", "SET", "maxmemory", "1"},
		"CLIENT KILL is not supported": {"CLIENT", "KILL", "x"},
		"PUBLISH is not supported":     {"PUBLISH", "c", "m"},
		"SUBSCRIBE is not supported":   {"SUBSCRIBE", "x"},
		"unknown command 'client|id'":  {"client|id"},
		"unknown subcommand 'nosuch'.": {"CAUSAL", "nosuch"},
		"'causal|resume' command":      {"CAUSAL", "RESUME"},
		"'causal|status' command":      {"CAUSAL", "STATUS", "x"},
	} {
		if got := p.do(args...); !strings.HasPrefix(got, "-ERR ") || !strings.Contains(got, want) {
			t.Errorf("%q: got %q", args, got)
		}
	}
}

func TestCausalRepliesUseRESPTypes(t *testing.T) {
	_, address := serve(t, Options{Backend: newMemory()})
	p := dial(t, address)
	status := "$11\r\ndata-center\r\n$4\r\neu-1\r\n$4\r\nring\r\n$2\r\neu\r\n$5\r\nscope\r\n$3\r\nPod\r\n$5\r\nbound\r\n$3\r\nyes\r\n" +
		"$8\r\nbound-by\r\n:2\r\n$5\r\nrings\r\n*2\r\n$2\r\neu\r\n$2\r\nus\r\n$17\r\nincomplete-writes\r\n:3\r\n" +
		"$11\r\nlast-source\r\n$5\r\ncache\r\n$11\r\nlast-status\r\n$6\r\nstable\r\n$16\r\nstability-lag-ms\r\n:250\r\n"
	p.expect("*20\r\n"+status, "causal", "status")
	p.do("HELLO", "3")
	p.expect("%10\r\n"+status, "CAUSAL", "status")
	p.expect("*3\r\n$3\r\n5@1\r\n$5\r\ncache\r\n$6\r\nstable\r\n", "CAUSAL", "LAST")
	p.expect("$7\r\na token\r\n", "CAUSAL", "TOKEN")
	p.expect("+OK\r\n", "CAUSAL", "RESUME", "a token")
	p.expect("-ERR cannot resume: abc is no token\r\n", "CAUSAL", "RESUME", "abc")
	p.expect(":1\r\n", "CAUSAL", "wait", "eu", "100")
	p.expect(":0\r\n", "CAUSAL", "wait", "us", "100")
	p.expect(":0\r\n", "CAUSAL", "wait", "ALL", "100")
	p.expect(":1\r\n", "CAUSAL", "wait", "3600000")
	p.expect("-ERR there is no ring 'nosuch'\r\n", "CAUSAL", "wait", "nosuch", "100")
	for _, timeout := range []string{"-1", "3600001", "x"} {
		p.expect("-ERR timeout is not an integer of milliseconds between 0 and 3600000\r\n", "CAUSAL", "WAIT",
			"eu", timeout)
	}
	if got := p.do("CAUSAL", "HELP"); !strings.Contains(got, "RESUME <token>") {
		t.Errorf("got %q", got)
	}
}

func TestInfoReturnsTheRequestedSections(t *testing.T) {
	_, address := serve(t, Options{Backend: newMemory()})
	p := dial(t, address)
	p.do("SET", "k", "v")
	all := p.do("INFO")
	for _, want := range []string{"# Server\r\n", "redis_version:7.", "# Clients\r\nconnected_clients:1\r\n",
		"# Stats\r\n", "role:master", "db0:keys=1,", "# CausalStore\r\n"} {
		if !strings.Contains(all, want) {
			t.Errorf("INFO lacks %q: %q", want, all)
		}
	}
	p.expect("$79\r\n# CausalStore\r\ndata_center:eu-1\r\nring:eu\r\nsession_scope:Pod\r\ntopology_epoch:7\r\n\r\n",
		"INFO", "causalstore")
	p.expect("$44\r\n# Keyspace\r\ndb0:keys=1,expires=0,avg_ttl=0\r\n\r\n", "INFO", "KEYSPACE")
	p.do("HELLO", "3")
	p.expect("=34\r\ntxt:# Cluster\r\ncluster_enabled:0\r\n\r\n", "INFO", "cluster")
}

func TestClientListShowsTheClientItself(t *testing.T) {
	_, address := serve(t, Options{Backend: newMemory()})
	p := dial(t, address)
	p.expect("+OK\r\n", "CLIENT", "SETINFO", "LIB-NAME", "mylib")
	p.expect("+OK\r\n", "CLIENT", "SETINFO", "lib-ver", "1.2")
	p.expect("-ERR Unrecognized option 'x'\r\n", "CLIENT", "SETINFO", "x", "1")
	p.expect("-ERR lib-ver cannot contain spaces, newlines or special characters.\r\n", "CLIENT", "SETINFO",
		"lib-ver", "a b")
	p.expect("+OK\r\n", "CLIENT", "NO-TOUCH", "on")
	for _, args := range [][]string{{"CLIENT", "INFO"}, {"CLIENT", "LIST"}, {"CLIENT", "LIST", "ID", "1", "5"},
		{"CLIENT", "LIST", "TYPE", "normal"}} {
		got := p.do(args...)
		for _, want := range []string{"id=1 ", "addr=" + p.LocalAddr().String() + " ", "lib-name=mylib lib-ver=1.2\n",
			"resp=2 ", "user=default "} {
			if !strings.Contains(got, want) {
				t.Errorf("%q lacks %q: %q", args, want, got)
			}
		}
	}
	for _, help := range []string{"CLIENT", "CONFIG", "COMMAND"} {
		if got := p.do(help, "HELP"); !strings.HasPrefix(got, "*") || !strings.Contains(got, "+"+help+" <subcommand>") {
			t.Errorf("got %q", got)
		}
	}
}

func TestCommandDescribesTheTable(t *testing.T) {
	_, address := serve(t, Options{Backend: newMemory()})
	p := dial(t, address)
	n := len(sortedCommands())
	head := func(kind string, n int) string { return kind + itoa(n) + "\r\n" }
	p.expect(head(":", n), "COMMAND", "COUNT")
	for _, args := range [][]string{{"COMMAND"}, {"COMMAND", "INFO"}} {
		if got := p.do(args...); !strings.HasPrefix(got, head("*", n)) {
			t.Errorf("%q: %.20q", args, got)
		}
	}
	p.expect("*2\r\n$4\r\nmget\r\n$4\r\nmset\r\n", "COMMAND", "LIST", "FILTERBY", "PATTERN", "M[gs]?t")
	if got := p.do("COMMAND", "LIST", "FILTERBY", "ACLCAT", "dangerous"); !strings.Contains(got, "config|get") ||
		strings.Contains(got, "$3\r\nget\r\n") {
		t.Errorf("got %q", got)
	}
	if got := p.do("COMMAND", "DOCS"); !strings.HasPrefix(got, head("*", 2*n)) ||
		!strings.Contains(got, "client|setname") {
		t.Errorf("got %.50q", got)
	}
	p.do("HELLO", "3")
	if got := p.do("COMMAND", "DOCS", "get", "nosuch"); !strings.HasPrefix(got,
		"%1\r\n$3\r\nget\r\n%3\r\n$7\r\nsummary\r\n") {
		t.Errorf("got %q", got)
	}
}
