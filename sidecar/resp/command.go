package resp

import (
	"slices"
	"strings"
)

// command is one row of the table. What COMMAND tells of it is data; run does the work.
type command struct {
	name    string // lower case; "container|sub" for a subcommand
	arity   int    // arguments with the name; negative: at least that many
	flags   string // as COMMAND INFO has them
	keys    keys
	acl     string // ACL categories, as COMMAND INFO has them
	access  string // what it does to its keys, as in the key specifications of COMMAND INFO
	group   string
	since   string
	summary string
	traits  trait
	run     handler
	subs    []*command
}

// keys says which arguments are keys: from first to last (negative: counted from the end), each step-th.
type keys struct{ first, last, step int }

var (
	noKey   = keys{}
	oneKey  = keys{1, 1, 1}
	allKeys = keys{1, -1, 1}
	pairs   = keys{1, -1, 2}
)

// trait is what the connection loop has to know of a command.
type trait uint8

const (
	// store commands need a Session.
	store trait = 1 << iota
	// blind commands write without reading: earlier puts of the connection need not be durable before they start.
	blind
	// open commands are allowed before AUTH.
	open
)

// handler executes a command: it writes exactly one reply, or returns an error and has written nothing. args[0] is the
// name. The args are valid during the call only.
type handler func(c *connection, args [][]byte) error

// byName holds commands, also subcommands by their full name. It is filled by init because COMMAND itself reads it.
var byName = make(map[string]*command)

func init() {
	for _, cmd := range table() {
		byName[cmd.name] = cmd
		for _, sub := range cmd.subs {
			byName[sub.name] = sub
		}
	}
}

// commands returns the table in the order of names, without subcommands.
func commands() []*command {
	var all []*command
	for name, cmd := range byName {
		if !strings.Contains(name, "|") {
			all = append(all, cmd)
		}
	}
	slices.SortFunc(all, func(a, b *command) int { return strings.Compare(a.name, b.name) })
	return all
}

// lookup finds the command that args call, or the error that Redis has for it. It allocates only for errors.
func lookup(args [][]byte) (*command, *Error) {
	var name [maxNameBytes]byte
	n := copyLower(name[:], args[0])
	cmd := byName[string(name[:n])]
	if cmd == nil || n < len(args[0]) || strings.Contains(cmd.name, "|") {
		return nil, errUnknownCommand(args)
	}
	if len(cmd.subs) > 0 && len(args) > 1 {
		container := cmd
		name[n] = '|'
		n += 1 + copyLower(name[n+1:], args[1])
		if cmd = byName[string(name[:n])]; cmd == nil {
			return nil, errUnknownSubcommand(container, args[1])
		}
	}
	if cmd.arity > 0 && len(args) != cmd.arity || len(args) < -cmd.arity {
		return nil, errArity(cmd.name)
	}
	return cmd, nil
}

func copyLower(to, from []byte) int {
	n := copy(to, from)
	for i, c := range to[:n] {
		to[i] = lower(c)
	}
	return n
}

// errUnknownCommand shows what came, up to 128 bytes of it. Redis builds it from C strings, so each part ends at a zero byte.
func errUnknownCommand(args [][]byte) *Error {
	var shown strings.Builder
	for _, arg := range args[1:] {
		if shown.Len() >= 128 {
			break
		}
		shown.WriteByte('\'')
		shown.WriteString(cString(arg, 128-(shown.Len()-1)))
		shown.WriteString("' ")
	}
	return Errorf("ERR", "unknown command '%s', with args beginning with: %s", cString(args[0], 128), shown.String())
}

func errUnknownSubcommand(container *command, name []byte) *Error {
	return Errorf("ERR", "unknown subcommand '%s'. Try %s HELP.", cString(name, 128), strings.ToUpper(container.name))
}

func cString(b []byte, limit int) string {
	s, _, _ := strings.Cut(string(b[:min(len(b), limit)]), "\x00")
	return s
}

// positions calls f for each argument of args that is a key, until f returns false.
func (k keys) positions(argc int, f func(i int) bool) {
	if k.first == 0 {
		return
	}
	last := k.last
	if last < 0 {
		last += argc
	}
	for i := k.first; i <= last && i < argc; i += k.step {
		if !f(i) {
			return
		}
	}
}

// isKey reports whether argument i is a key.
func (k keys) isKey(i, argc int) bool {
	last := k.last
	if last < 0 {
		last += argc
	}
	return k.first > 0 && i >= k.first && i <= last && (i-k.first)%k.step == 0
}
