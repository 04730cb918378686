package resp

import (
	"slices"
	"strings"
)

// COMMAND
func commandAll(c *connection, _ [][]byte) error {
	all := sortedCommands()
	c.out.writeArrayHeader(len(all))
	for _, cmd := range all {
		c.out.writeReply(cmd.infoReply())
	}
	return nil
}

// COMMAND COUNT
func commandCount(c *connection, _ [][]byte) error {
	c.out.writeInteger(int64(len(sortedCommands())))
	return nil
}

// COMMAND INFO [name ...]
func commandInfo(c *connection, args [][]byte) error {
	if len(args) == 2 {
		return commandAll(c, args)
	}
	c.out.writeArrayHeader(len(args) - 2)
	for _, name := range args[2:] {
		if cmd := byName[strings.ToLower(string(name))]; cmd != nil {
			c.out.writeReply(cmd.infoReply())
		} else {
			c.out.writeNull()
		}
	}
	return nil
}

// COMMAND DOCS [name ...]: omits unknown names.
func commandDocs(c *connection, args [][]byte) error {
	wanted := sortedCommands()
	if len(args) > 2 {
		wanted = nil
		for _, name := range args[2:] {
			if cmd := byName[strings.ToLower(string(name))]; cmd != nil {
				wanted = append(wanted, cmd)
			}
		}
	}
	docs := Map{}
	for _, cmd := range wanted {
		docs = append(docs, cmd.name, cmd.docsReply())
	}
	c.out.writeReply(docs)
	return nil
}

// COMMAND LIST [FILTERBY MODULE name | ACLCAT category | PATTERN pattern]
func commandList(c *connection, args [][]byte) error {
	keep := func(*command) bool { return true }
	if len(args) > 2 {
		if len(args) != 5 || !equalFold(args[2], "filterby") {
			return errSyntax
		}
		word := string(args[4])
		switch {
		case equalFold(args[3], "module"):
			keep = func(*command) bool { return false }
		case equalFold(args[3], "aclcat"):
			keep = func(cmd *command) bool {
				return slices.Contains(strings.Fields(cmd.acl), "@"+strings.ToLower(word))
			}
		case equalFold(args[3], "pattern"):
			keep = func(cmd *command) bool { return matchGlob(word, cmd.name, true) }
		default:
			return errSyntax
		}
	}
	names := Array{}
	for _, cmd := range sortedCommands() {
		for _, each := range append([]*command{cmd}, cmd.subs...) {
			if keep(each) {
				names = append(names, each.name)
			}
		}
	}
	c.out.writeReply(names)
	return nil
}

// COMMAND GETKEYS command arg [arg ...]
func commandGetKeys(c *connection, args [][]byte) error {
	args = args[2:]
	cmd, err := find(args)
	switch {
	case err != nil:
		return genericError("Invalid command specified")
	case cmd.keys == noKey:
		return genericError("The command has no key arguments")
	case !cmd.accepts(len(args)):
		return genericError("Invalid number of arguments specified for command")
	}
	keys := Array{}
	cmd.keys.forEach(args, func(i int) bool {
		keys = append(keys, args[i])
		return true
	})
	c.out.writeReply(keys)
	return nil
}

// COMMAND HELP
func commandHelp(c *connection, _ [][]byte) error {
	c.writeHelp("COMMAND",
		"(no subcommand)", "    Return details about all commands.",
		"COUNT", "    Return the total number of commands.",
		"DOCS [<command-name> ...]", "    Return documentation of the given commands, or of all.",
		"GETKEYS <full-command>", "    Return the keys of a command with its arguments.",
		"INFO [<command-name> ...]", "    Return details about the given commands, or about all.",
		"LIST [FILTERBY (MODULE <name>|ACLCAT <category>|PATTERN <pattern>)]", "    Return a list of commands.")
	return nil
}

// infoReply is the reply of COMMAND INFO: name, arity, flags, first key, last key, step, ACL categories, tips, key
// specifications, subcommands.
func (cmd *command) infoReply() Array {
	subs := Array{}
	for _, sub := range cmd.subs {
		subs = append(subs, sub.infoReply())
	}
	return Array{cmd.name, cmd.arity, wordSet(cmd.flags), cmd.keys.first, cmd.keys.last, cmd.keys.step,
		wordSet(cmd.acl),
		Array{}, cmd.keySpecs(), subs}
}

// keySpecs describes the keys in the newer form, which also says how the command accesses them: one entry for all, or
// one for each if it accesses them in different ways; the last one is about all that are left.
func (cmd *command) keySpecs() Array {
	k := cmd.keys
	if k == noKey {
		return Array{}
	}
	last := k.last
	if last > 0 {
		last -= k.first // counted from the first key
	}
	specs := Array{}
	accesses := strings.Split(cmd.access, ";")
	for i, access := range accesses {
		if hidden, isHidden := strings.CutPrefix(access, "?"); isHidden {
			unknown := Map{"type", "unknown", "spec", Map{}}
			specs = append(specs, Map{"flags", wordSet(hidden), "begin_search", unknown, "find_keys", unknown})
			continue
		}
		if k.store > 0 && i > 0 {
			specs = append(specs, Map{
				"flags", wordSet(access),
				"begin_search", Map{"type", "keyword", "spec", Map{"keyword", [...]string{"STORE", "STOREDIST"}[i-1],
					"startfrom", k.store}},
				"find_keys", Map{"type", "range", "spec", Map{"lastkey", 0, "keystep", 1, "limit", 0}},
			})
			continue
		}
		if k.streams > 0 {
			specs = append(specs, Map{
				"flags", wordSet(access),
				"begin_search", Map{"type", "keyword", "spec", Map{"keyword", "STREAMS", "startfrom", k.streams}},
				"find_keys", Map{"type", "range", "spec", Map{"lastkey", -1, "keystep", 1, "limit", 2}},
			})
			break
		}
		if k.counted > 0 && i == len(accesses)-1 {
			specs = append(specs, Map{
				"flags", wordSet(access),
				"begin_search", Map{"type", "index", "spec", Map{"index", k.counted}},
				"find_keys", Map{"type", "keynum", "spec", Map{"keynumidx", 0, "firstkey", 1, "keystep", 1}},
			})
			break
		}
		if len(accesses) > 1 {
			last = 0
			if i == len(accesses)-1 {
				last = min(k.last, 0) // it is about all that are left
			}
		}
		specs = append(specs, Map{
			"flags", wordSet(access),
			"begin_search", Map{"type", "index", "spec", Map{"index", k.first + i}},
			"find_keys", Map{"type", "range", "spec", Map{"lastkey", last, "keystep", k.step, "limit", 0}},
		})
	}
	return specs
}

func (cmd *command) docsReply() Map {
	docs := Map{"summary", cmd.summary, "since", cmd.since, "group", cmd.group}
	if len(cmd.subs) > 0 {
		subs := Map{}
		for _, sub := range cmd.subs {
			subs = append(subs, sub.name, sub.docsReply())
		}
		docs = append(docs, "subcommands", subs)
	}
	return docs
}

func wordSet(s string) Set {
	set := Set{}
	for _, w := range strings.Fields(s) {
		set = append(set, SimpleString(w))
	}
	return set
}
