package resp

import (
	"slices"
	"strings"
)

// command is one row of the table: a description for COMMAND, and a handler.
type command struct {
	name  string // lower case; "container|sub" for a subcommand
	arity int    // arguments with the name; negative: at least that many
	flags string // as in COMMAND INFO
	keys  keyRange
	acl   string // ACL categories, as in COMMAND INFO
	// access is how it accesses its keys, as in the key specifications of COMMAND INFO; with ";", key by key. Those
	// with "?" do not tell where the key is.
	access  string
	group   string
	since   string
	summary string
	traits  trait
	run     handler
	subs    []*command
	index   int  // in stats.byCommand
	writes  bool // as its flags say
}

// keyRange says which arguments are keys: from first to last (negative: counted from the end), each step-th.
type keyRange struct {
	first, last, step int
	// counted is the argument that has the number of the keys, or of further keys, which follow it; 0: none.
	counted int
	// store is from where on a key may follow the word STORE, or STOREDIST; 0: none does.
	store int
	// streams is from where on the word STREAMS is, which keys and as many ids follow; 0: nowhere.
	streams int
	// sorts says that a key may follow the word STORE among the options of SORT.
	sorts bool
}

var (
	noKey   = keyRange{}
	oneKey  = keyRange{first: 1, last: 1, step: 1}
	allKeys = keyRange{first: 1, last: -1, step: 1}
	twoKeys = keyRange{first: 1, last: 2, step: 1}
	pairs   = keyRange{first: 1, last: -1, step: 2}

	allButLast = keyRange{first: 1, last: -2, step: 1}

	countedKeysOnly = keyRange{counted: 1}
	countedSecond   = keyRange{counted: 2}
	oneAndCounted   = keyRange{first: 1, last: 1, step: 1, counted: 2}
)

// trait is a property of a command that the connection loop depends on.
type trait uint8

const (
	// needsSession commands need a Session.
	needsSession trait = 1 << iota
	// pipelinedWrite commands may be executed, or answered, together with those that follow them, so they need not wait
	// for those before them.
	pipelinedWrite
	// beforeAuth commands are allowed before AUTH.
	beforeAuth
	// immediate commands are executed inside MULTI too, and not queued.
	immediate
	// outsideMulti commands are refused inside MULTI.
	outsideMulti
	// readAheadOf commands may be answered with what was read before they are executed.
	readAheadOf
)

// handler executes a command: it either writes exactly one reply, or writes nothing and returns an error. args[0] is
// the name. args are valid during the call only.
type handler func(c *connection, args [][]byte) error

// byName maps full names to commands and subcommands. init fills it, because the handler of COMMAND reads it.
var byName = make(map[string]*command)

func init() {
	for _, cmd := range commandTable() {
		for _, each := range append([]*command{cmd}, cmd.subs...) {
			each.index, each.writes = len(byName), slices.Contains(strings.Fields(each.flags), "write")
			byName[each.name] = each
		}
	}
}

// sortedCommands returns the commands in the order of their names, without subcommands.
func sortedCommands() []*command {
	var all []*command
	for name, cmd := range byName {
		if !strings.Contains(name, "|") {
			all = append(all, cmd)
		}
	}
	slices.SortFunc(all, func(a, b *command) int { return strings.Compare(a.name, b.name) })
	return all
}

// lookup returns the command that args name, or the error that Redis gives for them. It allocates only for errors.
func lookup(args [][]byte) (*command, *Error) {
	cmd, err := find(args)
	if err == nil && !cmd.accepts(len(args)) {
		return nil, errArity(cmd.name)
	}
	return cmd, err
}

// accepts reports whether the command takes so many arguments, with its name.
func (cmd *command) accepts(argc int) bool {
	return argc == cmd.arity || cmd.arity < 0 && argc >= -cmd.arity
}

// find is lookup for any number of arguments.
func find(args [][]byte) (*command, *Error) {
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
	return cmd, nil
}

func copyLower(to, from []byte) int {
	n := copy(to, from)
	for i, c := range to[:n] {
		to[i] = lower(c)
	}
	return n
}

// errUnknownCommand quotes up to 128 bytes of the arguments. Redis builds this from C strings, so each ends at a zero
// byte.
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

// cString returns at most limit bytes of b, up to the first zero byte.
func cString(b []byte, limit int) string {
	s, _, _ := strings.Cut(string(b[:min(len(b), limit)]), "\x00")
	return s
}

// forEach calls f with the index of each argument that is a key, until f returns false.
func (k keyRange) forEach(args [][]byte, f func(i int) bool) {
	last := k.last
	if last < 0 {
		last += len(args)
	}
	for i := k.first; i > 0 && i <= last && i < len(args); i += k.step {
		if !f(i) {
			return
		}
	}
	for i := k.store; i > 0 && i+1 < len(args); i++ {
		if (equalFold(args[i], "store") || equalFold(args[i], "storedist")) && !f(i+1) {
			return
		}
	}
	if k.streams > 0 && !forEachStream(args, f) {
		return
	}
	if at := storeOfSort(args); k.sorts && at > 0 && !f(at) {
		return
	}
	if k.counted == 0 || k.counted >= len(args) {
		return
	}
	n, _ := parseInt(args[k.counted])
	for i := k.counted + 1; n > 0 && i < len(args) && f(i); i++ {
		n--
	}
}

// forEachStream calls f with the index of each stream that XREAD or XREADGROUP reads, until f returns false.
func forEachStream(args [][]byte, f func(i int) bool) bool {
	for i := 1; i < len(args); i++ {
		switch {
		case equalFold(args[i], "streams"):
			for n, at := (len(args)-i-1)/2, i+1; n > 0; n-- {
				if !f(at) {
					return false
				}
				at++
			}
			return true
		case equalFold(args[i], "block"), equalFold(args[i], "count"):
			i++
		case equalFold(args[i], "group"):
			i += 2
		case !equalFold(args[i], "noack"):
			return true
		}
	}
	return true
}

// storeOfSort returns where SORT has the key that it writes, after the last STORE; 0: nowhere.
func storeOfSort(args [][]byte) (at int) {
	for i := 2; i < len(args); i++ {
		switch {
		case equalFold(args[i], "limit"):
			i += 2
		case equalFold(args[i], "get"), equalFold(args[i], "by"):
			i++
		case equalFold(args[i], "store") && i+1 < len(args):
			at = i + 1
		}
	}
	return at
}

// isKey reports whether argument i is a key.
func (k keyRange) isKey(i, argc int) bool {
	last := k.last
	if last < 0 {
		last += argc
	}
	return k.first > 0 && i >= k.first && i <= last && (i-k.first)%k.step == 0
}
