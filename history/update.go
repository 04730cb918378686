package history

import (
	"fmt"
	"strconv"
	"strings"
)

// content is the value of a key between two commands.
type content struct {
	present bool
	any     bool // present, with a text that is not known
	text    string
}

// question is what the reply to a command tells about the value that it found.
type question uint8

const (
	silent   question = iota
	presence          // whether there was one
	whole             // all of it
	number            // what it was as a number: the reply is the sum
	length            // how long it was: the reply is the length afterwards
)

// action is what a command does to the value.
type action uint8

const (
	keep action = iota
	set
	remove
	add
	appendTo
)

// condition says when a command does it.
type condition uint8

const (
	always condition = iota
	ifAbsent
	ifPresent
)

// command is what a command does to one key, as one Redis does it, and what its reply tells.
type command struct {
	asks question
	does action
	when condition
	// present is the reply to the question presence by which the command says that there was a value.
	present func(reply *command) bool
	text    string // of set and appendTo
	delta   int64  // of add
	// rewrites: it writes what it has found once more, if it has found something. That is a version of its own.
	rewrites bool
	// zeroTellsNothing: the reply 0 does not say that there was no value. It has then written nothing.
	zeroTellsNothing bool
	// alwaysWrites: it writes a delete also where it has found nothing.
	alwaysWrites bool
	// answered: the outcome is known; reply or isNil is the answer.
	answered, isNil bool
	reply           string
}

// The ways to say that there was a value.
func replyIsNotZero(c *command) bool { return c.reply != "0" }
func replyIsZero(c *command) bool    { return c.reply == "0" }
func replyIsNil(c *command) bool     { return c.isNil }
func replyIsNotNil(c *command) bool  { return !c.isNil }

// commandOf returns the command of a get, put, delete or update.
func commandOf(op *Op) (c command, err error) {
	switch op.Kind {
	case Get:
		c = command{asks: whole}
	case Put:
		c = command{does: set, text: op.Value}
	case Delete:
		c = command{does: remove}
	case Update:
		c, err = parseCommand(op.Command)
	default:
		err = fmt.Errorf("a %s is not a command on one key", op.Kind)
	}
	c.answered, c.reply, c.isNil = op.OK, op.Value, op.Missing
	if c.zeroTellsNothing && c.answered && c.reply == "0" {
		c.asks, c.rewrites = silent, false
	}
	if err == nil && c.answered && c.asks >= number {
		_, err = strconv.ParseInt(c.reply, 10, 64)
	}
	return c, err
}

// parseCommand parses a command without its key and reply. What it does not know, the judge cannot judge.
func parseCommand(words []string) (command, error) {
	unknown := fmt.Errorf("command %q is not one that can be judged", words)
	if len(words) == 0 {
		return command{}, unknown
	}
	name, args := strings.ToUpper(words[0]), words[1:]
	c, arguments := command{}, 0
	switch name {
	case "GET":
		c.asks = whole
	case "EXISTS":
		c.asks, c.present, arguments = presence, replyIsNotZero, len(args)
	case "EXPIRE", "PEXPIRE", "PERSIST": // a time to live that ends within the history cannot be judged
		c = command{asks: presence, present: replyIsNotZero, rewrites: true,
			zeroTellsNothing: len(args) != 1} // options, and no time to live to remove, are further reasons
		arguments = len(args)
	case "STRLEN":
		c.asks = length
	case "SET":
		return parseSet(args)
	case "SETNX":
		c, arguments = command{asks: presence, present: replyIsZero, when: ifAbsent, does: set}, 1
	case "GETSET":
		c, arguments = command{asks: whole, does: set}, 1
	case "GETDEL":
		c = command{asks: whole, does: remove}
	case "DEL", "UNLINK":
		c = command{asks: presence, present: replyIsNotZero, does: remove}
	case "INCR":
		c = command{asks: number, does: add, delta: 1}
	case "DECR":
		c = command{asks: number, does: add, delta: -1}
	case "INCRBY", "DECRBY":
		c, arguments = command{asks: number, does: add}, 1
	case "APPEND":
		c, arguments = command{asks: length, does: appendTo}, 1
	default:
		return c, unknown
	}
	if len(args) != arguments {
		return c, unknown
	}
	if c.does == set || c.does == appendTo {
		c.text = args[0]
	}
	if name == "INCRBY" || name == "DECRBY" {
		delta, err := strconv.ParseInt(args[0], 10, 64)
		if err != nil {
			return c, unknown
		}
		if c.delta = delta; name == "DECRBY" {
			c.delta = -delta
		}
	}
	return c, nil
}

// parseSet parses the arguments of a SET.
func parseSet(args []string) (command, error) {
	c := command{does: set}
	for i, word := range args {
		switch option := strings.ToUpper(word); {
		case i == 0:
			c.text = word
		case option == "NX" && c.when == always:
			c.when = ifAbsent
		case option == "XX" && c.when == always:
			c.when = ifPresent
		case option == "GET":
			c.asks = whole
		case option != "KEEPTTL":
			return c, fmt.Errorf("option %q of SET is not one that can be judged", word)
		}
	}
	if len(args) == 0 {
		return c, fmt.Errorf("a SET without a value")
	}
	if c.asks == silent && c.when != always {
		c.asks, c.present = presence, replyIsNil
		if c.when == ifPresent {
			c.present = replyIsNotNil
		}
	}
	return c, nil
}

// execute returns the value that a command leaves where it has found another one. It reports false if it would not have
// replied as it did. A command of unknown outcome may have replied anything.
func (c *command) execute(found content) (left content, ok bool) {
	if c.answered {
		if found, ok = c.check(found); !ok {
			return found, false
		}
	}
	if c.when == ifAbsent && found.present || c.when == ifPresent && !found.present {
		return found, true
	}
	switch c.does {
	case set:
		return content{present: true, text: c.text}, true
	case remove:
		return content{}, true
	case add:
		left, _ = c.sum(found) // one of unknown outcome may have failed
		return left, true
	case appendTo:
		return content{present: true, any: found.any, text: found.text + c.text}, true
	default:
		return found, true
	}
}

// check reports whether a command that has found a value would have replied as it did, and returns that value with what
// the reply tells of it.
func (c *command) check(found content) (content, bool) {
	switch c.asks {
	case presence:
		return found, found.present == c.present(c)
	case whole:
		if found.any && !c.isNil {
			return content{present: true, text: c.reply}, true
		}
		return found, found.present == !c.isNil && found.text == c.reply
	case number:
		sum, ok := c.sum(found)
		return found, ok && (sum.any || sum.text == c.reply)
	case length:
		n := len(found.text)
		if c.does == appendTo {
			n += len(c.text)
		}
		return found, found.any || c.reply == strconv.Itoa(n)
	default:
		return found, true
	}
}

// sum returns what a command that adds leaves; false if it has found no number, and fails.
func (c *command) sum(found content) (content, bool) {
	if found.any {
		return content{present: true, any: !c.answered, text: c.reply}, true
	}
	n := int64(0)
	if found.present {
		var err error
		if n, err = strconv.ParseInt(found.text, 10, 64); err != nil {
			return found, false
		}
	}
	return content{present: true, text: strconv.FormatInt(n+c.delta, 10)}, true
}

// wrote returns the value that a command has written, as far as its reply tells: false if it has written nothing. One
// of unknown outcome is taken to have written.
func (c *command) wrote() (content, bool) {
	if c.answered && c.asks != silent {
		there := c.asks == whole && !c.isNil || c.asks == presence && c.present(c)
		if c.when == ifAbsent && there || c.when == ifPresent && !there || c.does == remove && !there &&
			!c.alwaysWrites {
			return content{}, false
		}
	}
	switch c.does {
	case set:
		return content{present: true, text: c.text}, true
	case remove:
		return content{}, true
	case add:
		return c.sum(content{present: true, any: true})
	case appendTo:
		return content{present: true, any: true}, true
	default:
		return content{}, false
	}
}

// dependsOnFound reports whether commands with the same reply may leave different values, neither of which is the one
// that they have found.
func (c *command) dependsOnFound() bool {
	return c.does == appendTo || !c.answered && (c.does == add || c.does != keep && c.when != always)
}

// showUpdate writes an update and its reply: "INCRBY x 2: 5".
func (o *Op) showUpdate(b *strings.Builder) {
	for i, word := range o.Command {
		if i == 0 {
			b.WriteString(strings.ToUpper(word) + " " + shown(o.Key))
		} else {
			b.WriteString(" " + shown(word))
		}
	}
	switch {
	case !o.OK:
	case o.Missing:
		b.WriteString(": <nil>")
	default:
		b.WriteString(": " + shown(o.Value))
	}
	showVersion(b, o.Version)
}
