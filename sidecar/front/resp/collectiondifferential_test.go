package resp

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// unordered are the commands whose replies have no order: in Redis, that of elements is by chance. EXEC may have
// replies of such.
var unordered = map[string]bool{"hgetall": true, "hkeys": true, "hvals": true, "smembers": true, "sunion": true,
	"sinter": true, "zscan": true, "sdiff": true, "hscan": true, "sscan": true, "exec": true, "scan": true}

func sortedLines(reply string) string {
	return strings.Join(slices.Sorted(slices.Values(strings.Split(reply, "\r\n"))), "\r\n")
}

func TestScriptedCommandsOfCollectionsGetTheRepliesOfRedis(t *testing.T) {
	socket := redis(t)
	for _, proto := range []string{"2", "3"} {
		for _, exact := range []bool{false, true} {
			t.Run("RESP"+proto+exactName(exact), func(t *testing.T) {
				w := newTwinsOf(t, socket, proto, exact)
				for _, args := range lines(collectionScript) {
					w.compare(args)
				}
			})
		}
	}
}

func exactName(exact bool) string {
	if exact {
		return ", one Redis"
	}
	return ""
}

func TestRandomPipelinesOfCollectionsGetTheRepliesOfRedis(t *testing.T) {
	socket := redis(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for _, proto := range []string{"2", "3"} {
		for _, exact := range []bool{false, true} {
			t.Run("RESP"+proto+exactName(exact), func(t *testing.T) {
				w := newTwinsOf(t, socket, proto, exact)
				for range 300 {
					batch := make([][]string, 1+r.IntN(40))
					for i := range batch {
						if batch[i] = randomCollectionCommand(r); r.IntN(4) == 0 {
							batch[i] = randomCommand(r)
						}
					}
					if r.IntN(3) == 0 && !slices.ContainsFunc(batch, isRefusedInMulti) {
						batch = slices.Concat([][]string{{"MULTI"}}, batch, [][]string{{"EXEC"}})
					}
					w.compare(batch...)
				}
			})
		}
	}
}

// isRefusedInMulti also reports commands of which the replies differ with the time.
func isRefusedInMulti(args []string) bool {
	switch name := strings.ToLower(args[0]); name {
	case "scan", "ttl", "pttl", "expiretime", "pexpiretime":
		return true
	}
	return false
}

func randomCollectionCommand(r *rand.Rand) []string {
	key := func() string { return pick(r, "a", "b", "c", "d", "{t}1", "\x00\r\n\xff", "") }
	field := func() string { return pick(r, "f", "g", "h", "1", "2", "\x00\r\n", "", strings.Repeat("n", 100)) }
	number := func() string {
		return pick(r, "0", "1", "-1", "5", "9223372036854775807", "-9223372036854775808", "1.5", "abc", "", " 1", "3.0e3")
	}
	fields := func(args []string, more int) []string {
		for range r.IntN(more) {
			args = append(args, field())
		}
		return args
	}
	score := func() string { // without -0 and 1e17, which Redis writes by its encoding
		return pick(r, "0", "1", "-1", "2.5", "inf", "-inf", "+1", "1e3", "0.1", "3", "nan", "abc", "", "1e400", "0x10",
			strconv.FormatFloat(r.NormFloat64(), 'g', -1, 64), "100000", "1e-7")
	}
	if r.IntN(3) == 0 {
		return randomSortedSetCommand(r, key, field, score)
	}
	name := pick(r, "HSET", "HSET", "HSET", "HMSET", "HSETNX", "HGET", "HMGET", "HGETALL", "HDEL", "HDEL", "HLEN", "HEXISTS",
		"HKEYS", "HVALS", "HSTRLEN", "HINCRBY", "HINCRBYFLOAT", "HSCAN", "SADD", "SADD", "SREM", "SCARD", "SISMEMBER",
		"SMISMEMBER", "SMEMBERS", "SSCAN", "SMOVE", "SUNION", "SINTER", "SDIFF", "SUNIONSTORE", "SINTERSTORE", "SDIFFSTORE",
		"RENAME", "RENAMENX", "COPY", "DEL", "DEL", "UNLINK", "TYPE", "EXISTS", "EXPIRE", "PERSIST", "TTL", "MGET", "SET",
		"GETEX", "SETNX")
	args := []string{name, key()}
	switch name {
	case "HSET", "HMSET":
		for range 1 + r.IntN(3) {
			args = append(args, field(), number())
		}
	case "HSETNX":
		args = append(args, field(), number())
	case "HGET", "HEXISTS", "HSTRLEN", "SISMEMBER":
		args = append(args, field())
	case "HMGET", "HDEL", "SADD", "SREM", "SMISMEMBER":
		args = fields(append(args, field()), 4)
	case "HINCRBY", "HINCRBYFLOAT":
		args = append(args, field(), number())
	case "HSCAN", "SSCAN":
		args = append(args, pick(r, "0", "0", "0", "x"))
		if r.IntN(3) == 0 {
			args = append(args, "MATCH", pick(r, "*", "f*", "[fg]"))
		}
		if r.IntN(3) == 0 {
			args = append(args, "COUNT", pick(r, "200", "100", "0", "x"))
		}
	case "SMOVE":
		args = append(args, key(), field())
	case "SUNION", "SINTER", "SDIFF", "SUNIONSTORE", "SINTERSTORE", "SDIFFSTORE", "DEL", "UNLINK", "EXISTS", "MGET":
		for range 1 + r.IntN(3) {
			args = append(args, key())
		}
	case "RENAME", "RENAMENX":
		args = append(args, key())
	case "COPY":
		if args = append(args, key()); r.IntN(2) == 0 {
			args = append(args, "REPLACE")
		}
	case "EXPIRE":
		args = append(args, pick(r, "0", "-1", strconv.Itoa(1e6+r.IntN(1e9))))
	case "SET":
		if args = append(args, number()); r.IntN(3) == 0 {
			args = append(args, pick(r, "NX", "XX", "GET", "KEEPTTL"))
		}
	case "GETEX":
		if r.IntN(2) == 0 {
			args = append(args, "PERSIST")
		}
	case "SETNX":
		args = append(args, number())
	}
	if r.IntN(30) == 0 {
		args = args[:len(args)-1]
	}
	return args
}

func randomSortedSetCommand(r *rand.Rand, key, member, score func() string) []string {
	name := pick(r, "ZADD", "ZADD", "ZADD", "ZADD", "ZINCRBY", "ZREM", "ZCARD", "ZSCORE", "ZMSCORE", "ZRANK", "ZREVRANK",
		"ZCOUNT", "ZLEXCOUNT", "ZRANGE", "ZRANGE", "ZRANGE", "ZREVRANGE", "ZRANGEBYSCORE", "ZREVRANGEBYSCORE", "ZRANGEBYLEX",
		"ZREVRANGEBYLEX", "ZRANGESTORE", "ZPOPMIN", "ZPOPMAX", "ZREMRANGEBYRANK", "ZREMRANGEBYSCORE", "ZREMRANGEBYLEX",
		"ZSCAN", "ZUNION", "ZINTER", "ZDIFF", "ZINTERCARD", "SINTERCARD", "ZUNIONSTORE", "ZINTERSTORE", "ZDIFFSTORE")
	rank := func() string { return pick(r, "0", "1", "-1", "-2", "5", "-100", "100", "x") }
	bound := func() string { return pick(r, "", "(", "(") + score() }
	text := func() string { return pick(r, "-", "+", "["+member(), "("+member(), "[", "x", "") }
	limit := func() []string {
		return []string{"LIMIT", pick(r, "0", "1", "-1", "x"), pick(r, "0", "1", "2", "-1", "x")}
	}
	args := []string{name, key()}
	if strings.HasSuffix(name, "CARD") && name != "ZCARD" || strings.HasPrefix(name, "ZUN") || strings.HasPrefix(name, "ZI") &&
		name != "ZINCRBY" || strings.HasPrefix(name, "ZD") {
		return randomCombination(r, name, key, score)
	}
	if strings.Contains(name, "LEX") || name == "ZADD" && r.IntN(4) == 0 { // names count only among members of one score
		if args[1] = "lex"; name == "ZADD" {
			return append(args, "0", member())
		}
	}
	switch name {
	case "ZADD":
		for range r.IntN(3) {
			args = append(args, pick(r, "NX", "XX", "GT", "LT", "CH", "CH", "INCR"))
		}
		for range 1 + r.IntN(3) {
			args = append(args, score(), member())
		}
	case "ZINCRBY":
		args = append(args, score(), member())
	case "ZREM", "ZMSCORE":
		args = append(args, member(), member())
	case "ZSCORE", "ZRANK", "ZREVRANK":
		args = append(args, member())
	case "ZCOUNT", "ZREMRANGEBYSCORE":
		args = append(args, bound(), bound())
	case "ZLEXCOUNT", "ZREMRANGEBYLEX":
		args = append(args, text(), text())
	case "ZREMRANGEBYRANK", "ZREVRANGE":
		if args = append(args, rank(), rank()); name == "ZREVRANGE" && r.IntN(2) == 0 {
			args = append(args, "WITHSCORES")
		}
	case "ZRANGESTORE", "ZRANGE":
		if name == "ZRANGESTORE" {
			args = append(args, key())
		}
		switch r.IntN(3) {
		case 0:
			args = append(args, rank(), rank())
		case 1:
			args = append(args, bound(), bound(), "BYSCORE")
		case 2:
			args[len(args)-1] = "lex"
			args = append(args, text(), text(), "BYLEX")
		}
		if r.IntN(3) == 0 {
			args = append(args, "REV")
		}
		if r.IntN(3) == 0 {
			args = append(args, limit()...)
		}
		if r.IntN(3) == 0 {
			args = append(args, "WITHSCORES")
		}
	case "ZRANGEBYSCORE", "ZREVRANGEBYSCORE", "ZRANGEBYLEX", "ZREVRANGEBYLEX":
		if strings.HasSuffix(name, "LEX") {
			args = append(args, text(), text())
		} else {
			args = append(args, bound(), bound())
		}
		if r.IntN(3) == 0 {
			args = append(args, limit()...)
		}
		if r.IntN(4) == 0 {
			args = append(args, "WITHSCORES")
		}
	case "ZPOPMIN", "ZPOPMAX":
		if r.IntN(2) == 0 {
			args = append(args, pick(r, "0", "1", "2", "-1", "x"))
		}
	case "ZSCAN":
		args = append(args, "0")
	}
	if r.IntN(30) == 0 {
		args = args[:len(args)-1]
	}
	return args
}

// randomCombination names two keys at most: Redis adds more than two scores in another order.
func randomCombination(r *rand.Rand, name string, key, score func() string) []string {
	args := []string{name}
	if strings.HasSuffix(name, "STORE") {
		args = append(args, key())
	}
	args = append(args, pick(r, "1", "2", "2", "2", "0", "-1", "3", "x"), key(), key())
	switch r.IntN(6) {
	case 0:
		args = append(args, "WEIGHTS", score(), score())
	case 1:
		args = append(args, "AGGREGATE", pick(r, "SUM", "min", "MAX", "x"))
	case 2:
		args = append(args, "WITHSCORES")
	case 3:
		args = append(args, "LIMIT", pick(r, "0", "1", "-1", "x"))
	}
	if r.IntN(8) == 0 {
		args = append(args, "WITHSCORES")
	}
	return args
}

const collectionScript = `
HSET h a 1 b 2
HSET h a 3 c 4
HSET h a
HSET h a 1 b
HMSET h a 1 b
HMSET h z 9
HSETNX h a 7
HSETNX h new 7
HGETALL h
HGETALL none
HGET h a
HGET h none
HGET none a
HMGET h a none b
HMGET none a b
HLEN h
HLEN none
HEXISTS h a
HEXISTS h none
HKEYS h
HVALS h
HSTRLEN h a
HSTRLEN h none
HINCRBY h a 5
HINCRBY h n 5
HINCRBY h a x
HINCRBY h a 9223372036854775807
HSET h text abc
HINCRBY h text 1
HINCRBYFLOAT h text 1
HINCRBYFLOAT h a 1.5
HINCRBYFLOAT h a x
HINCRBYFLOAT h a inf
HINCRBYFLOAT none2 f 3.0e3
HDEL h a b none
HDEL none a
HRANDFIELD none
HRANDFIELD none 5
HRANDFIELD none 5 WITHVALUES
HRANDFIELD none x
HRANDFIELD h 0
HRANDFIELD h 1 x
HRANDFIELD h -9223372036854775808
HRANDFIELD h -9223372036854775808 WITHVALUES
DEL one
HSET one f 1
HRANDFIELD one
HRANDFIELD one 5
HRANDFIELD one -3
HRANDFIELD one 5 WITHVALUES
HRANDFIELD one -2 WITHVALUES
HSCAN one 0
HSCAN one x
HSCAN one 0 MATCH f*
HSCAN one 0 MATCH g* COUNT 5
HSCAN one 0 TYPE hash
HSCAN one 0 COUNT
HSCAN one 0 COUNT 0
HSCAN none 0
TYPE h
TYPE none
EXISTS h none one
GET h
GETRANGE h 0 1
STRLEN h
APPEND h x
SETRANGE h 0 x
INCR h
INCRBYFLOAT h 1
GETSET h x
GETDEL h
GETEX h
GETEX h PERSIST
SET h x GET
SET h x NX
SETNX h x
MGET h one none
MSETNX h x y z
TTL h
EXPIRE h 100
TTL h
HSET h more 1
TTL h
PERSIST h
TTL h
EXPIRE h 1000
RENAME h h2
TTL h2
HGETALL h2
EXISTS h
COPY h2 h3
COPY h2 h3
COPY h2 h3 REPLACE
HGETALL h3
TTL h3
COPY h3 s3 DB 1
SELECT 1
HLEN s3
DEL s3
SELECT 0
DEL h2
HGETALL h2
HSET h2 again 1
TTL h2
HGETALL h2
EXPIRE h2 0
EXISTS h2
SET h3 x
GET h3
HGET h3 a
HSET h3 a 1
HDEL h3 a
HLEN h3
HGETALL h3
HINCRBY h3 a 1
HSCAN h3 0
DEL h3
HSET h3 a 1
HDEL h3 a
EXISTS h3
TYPE h3
SET h3 now
GET h3
DEL h3
SADD s a b c
SADD s a d
SADD s
SCARD s
SCARD none
SISMEMBER s a
SISMEMBER s z
SMISMEMBER s a z b
SMISMEMBER none a
SMEMBERS s
SMEMBERS none
SREM s a z
SREM none a
SMOVE s t b
SMOVE s t none
SMOVE none t b
SMEMBERS t
SMOVE t t b
SMOVE t t none
SMOVE s one b
SMOVE one s b
SMOVE none one b
SADD u b c x
SUNION s t u none
SINTER s u
SINTER s u none
SDIFF s u
SDIFF none u
SUNION s one
SINTER none one
SUNIONSTORE dest s t u
SMEMBERS dest
SINTERSTORE dest s u
SMEMBERS dest
SDIFFSTORE dest none s
EXISTS dest
SUNIONSTORE one s
SMEMBERS one
SUNIONSTORE s s u
SMEMBERS s
SUNIONSTORE dest h
SPOP none
SPOP none 5
SPOP s -1
SPOP s x
SPOP s 1 2
SRANDMEMBER none
SRANDMEMBER none 5
SRANDMEMBER s x
SRANDMEMBER s 1 2
DEL single
SADD single m
SRANDMEMBER single
SRANDMEMBER single 3
SRANDMEMBER single -3
SPOP single 0
SPOP single
EXISTS single
SADD single m
SPOP single 5
EXISTS single
SSCAN t 0
SSCAN t 0 MATCH z*
HSET t f 1
SADD none2 x
HGETALL t
MULTI
DEL x
HSET x a 1
HSET x b 2
HGETALL x
HDEL x a
HLEN x
SET x now
GET x
HSET x c 3
DEL x
HSET x d 4
HGETALL x
EXEC
HGETALL x
TTL x
MULTI
HDEL x d
SADD x m
SMEMBERS x
EXPIRE x 100
COPY x y
RENAME y z
SMEMBERS z
EXEC
TYPE x
SMEMBERS x
SMEMBERS z
TTL z
WATCH x
SADD x other
MULTI
SADD x never
EXEC
SMEMBERS x
DEL z
ZADD z 1 a 2 b 3 c
ZADD z XX 5 d
ZADD z NX 5 a
ZADD z CH 5 a
ZADD z INCR 2 a
ZADD z XX INCR 2 none
ZADD z NX XX 1 a
ZADD z GT LT 1 a
ZADD z NX GT 1 a
ZADD z INCR 1 a 2 b
ZADD z 1
ZADD z NX
ZADD z x a
ZADD z inf i
ZINCRBY z -inf i
ZINCRBY z 0.1 b
ZSCORE z b
ZSCORE z none
ZMSCORE z a none b
ZMSCORE none a
ZRANGE z 0 -1 WITHSCORES
ZRANGE z (1 +inf BYSCORE LIMIT 0 2
ZRANGE z 0 -1 LIMIT 0 1
ZRANGE z - + BYLEX WITHSCORES
ZRANGE z + - BYLEX REV
ZREVRANGE z 0 1
ZRANGE none 0 -1
ZRANGE x 0 -1
ZRANK z a
ZRANK z none
ZREVRANK z a
ZPOPMIN none
ZPOPMIN none 5
ZPOPMIN z
ZPOPMAX z 2
ZPOPMAX z 0
ZPOPMIN z -1
ZPOPMIN z 1 2
ZRANDMEMBER none
ZRANDMEMBER none 5
ZRANDMEMBER z 5 x
DEL zone
ZADD zone 1.5 m
ZRANDMEMBER zone
ZRANDMEMBER zone -2 WITHSCORES
ZRANDMEMBER zone 2 WITHSCORES
ZSCAN zone 0
TYPE zone
ZRANGESTORE dest zone 0 -1
ZRANGESTORE dest zone 5 6
EXISTS dest
ZRANGESTORE dest zone 0 -1 WITHSCORES
SADD zone x
HSET zone f 1
ZADD zo 1 m 2 n
SADD so m x
ZUNION 2 zo so WITHSCORES
ZUNION 2 zo so WEIGHTS 2 3 AGGREGATE MAX WITHSCORES
ZINTER 2 zo so WITHSCORES
ZINTER 2 zo none WITHSCORES
ZDIFF 2 zo so WITHSCORES
ZDIFF 2 zo so WEIGHTS 1 2
ZINTERCARD 2 zo so
ZINTERCARD 2 zo so LIMIT 1
SINTERCARD 2 so so LIMIT 1
SINTERCARD 0 so
SINTERCARD 3 so so
SINTERCARD 1 zo
ZUNION 0 zo
ZUNION x zo
ZUNION 3 zo so
ZUNION 1 zo WITHSCORES AGGREGATE x
ZUNIONSTORE dest 2 zo so WEIGHTS 1 x
ZUNIONSTORE dest 2 zo so WITHSCORES
ZUNIONSTORE dest 2 zo so
ZRANGE dest 0 -1 WITHSCORES
ZINTERSTORE zo 2 zo so
ZRANGE zo 0 -1 WITHSCORES
ZDIFFSTORE zo 2 zo so
EXISTS zo
COMMAND GETKEYS ZUNIONSTORE d 2 a b WEIGHTS 1 2
COMMAND GETKEYS ZUNION 2 a b
COMMAND GETKEYS SINTERCARD 2 a b LIMIT 5
MULTI
ZADD zm 1 a
SADD sm a b
ZUNION 2 zm sm WITHSCORES
ZUNIONSTORE zm 2 zm sm
ZRANGE zm 0 -1 WITHSCORES
EXEC
SUNION zone
FLUSHALL
EXISTS x z
HSET x after 1
HGETALL x
`
