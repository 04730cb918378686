package resp

import (
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestRandomPipelinesOfGeoCommandsGetTheRepliesOfRedis(t *testing.T) {
	compareRandomly(t, randomGeoCommand)
}

// compareRandomly compares pipelines and EXECs of random commands, mixed with others of strings and collections.
func compareRandomly(t *testing.T, command func(r *rand.Rand) []string) {
	t.Helper()
	comparePipelines(t, func(r *rand.Rand) []string {
		switch r.IntN(12) {
		case 0:
			return randomCollectionCommand(r)
		case 1:
			return randomCommand(r)
		}
		return command(r)
	})
}

// comparePipelines sends pipelines and transactions of random commands.
func comparePipelines(t *testing.T, command func(r *rand.Rand) []string) {
	t.Helper()
	socket := redis(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	rounds, commands := differentialRounds(t), 0
	defer func() { t.Logf("%d commands", commands) }()
	for _, proto := range []string{"2", "3"} {
		for _, exact := range []bool{false, true} {
			t.Run("RESP"+proto+exactName(exact), func(t *testing.T) {
				w := newTwinsOf(t, socket, proto, exact)
				w.roundsDistances = true
				for range rounds {
					batch := make([][]string, 1+r.IntN(40))
					for i := range batch {
						batch[i] = command(r)
					}
					if r.IntN(3) == 0 && !slices.ContainsFunc(batch, isRefusedInMulti) {
						batch = slices.Concat([][]string{{"MULTI"}}, batch, [][]string{{"EXEC"}})
					}
					w.compare(batch...)
					commands += len(batch)
				}
			})
		}
	}
}

var lengthOfBulk = regexp.MustCompile(`\$\d+\r\n`)

// sameDistances reports whether two replies are the same but for the last digits of numbers with a fraction.
func sameDistances(theirs, ours string) bool {
	a := strings.Split(lengthOfBulk.ReplaceAllString(theirs, ""), "\r\n")
	b := strings.Split(lengthOfBulk.ReplaceAllString(ours, ""), "\r\n")
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, err1 := strconv.ParseFloat(strings.TrimPrefix(a[i], ","), 64)
		y, err2 := strconv.ParseFloat(strings.TrimPrefix(b[i], ","), 64)
		isClose := err1 == nil && err2 == nil && strings.Contains(a[i], ".") && math.Abs(x-y) <= 1e-11*math.Abs(x)
		if a[i] != b[i] && !isClose {
			return false
		}
	}
	return true
}

func randomGeoCommand(r *rand.Rand) []string {
	key := func() string { return pick(r, "a", "b", "c", "p", "p", "p", "q", "q") }
	member := func() string { return pick(r, "m", "n", "o", "x", "y", "z") }
	coordinate := func(limit float64) string {
		switch r.IntN(40) {
		case 0:
			return pick(r, "x", "", "inf", "-inf", "nan", "1e400", "181", "-86", " 1", "0x10")
		case 1:
			return strconv.FormatFloat(limit, 'f', -1, 64)
		case 2:
			return pick(r, "0", "-0", "1", "90", "-85.05112878")
		}
		return strconv.FormatFloat((2*r.Float64()-1)*pick1(r, limit, limit, 3, 0.01), 'f', r.IntN(12), 64)
	}
	point := func() []string { return []string{coordinate(180), coordinate(85.05112878)} }
	unit := func() string { return pick(r, "m", "km", "KM", "mi", "ft", "km", "x", "") }
	if r.IntN(10) > 0 {
		unit = func() string { return pick(r, "m", "km", "mi", "ft") }
	}
	length := func() string {
		if r.IntN(30) == 0 {
			return pick(r, "x", "-1", "inf", "0", "1e300", "nan", "")
		}
		return strconv.FormatFloat(r.ExpFloat64()*pick1(r, 1, 100, 10_000, 1e6, 2e7), 'f', r.IntN(4), 64)
	}
	options := func(args []string, all bool) []string {
		for range r.IntN(4) {
			switch r.IntN(9) {
			case 0, 1:
				args = append(args, pick(r, "WITHCOORD", "withcoord"))
			case 2:
				args = append(args, "WITHDIST")
			case 3:
				args = append(args, "WITHHASH")
			case 4, 5:
				args = append(args, pick(r, "ASC", "DESC", "desc"))
			case 6:
				args = append(args, "COUNT", pick(r, "1", "2", "3", "100", "0", "-1", "x"))
			case 7:
				args = append(args, "COUNT", pick(r, "1", "2"), "ANY")
			case 8:
				args = append(args, pick(r, "ANY", "bogus", "COUNT", "STOREDIST", "STORE"))
			}
		}
		if all && r.IntN(2) == 0 {
			args = append(args, pick(r, "STORE", "STOREDIST", "store"), key())
		}
		return args
	}
	area := func() (args []string) {
		if r.IntN(2) == 0 {
			args = append(args, "FROMMEMBER", member())
		} else {
			args = append(append(args, "FROMLONLAT"), point()...)
		}
		if r.IntN(2) == 0 {
			args = append(args, "BYRADIUS", length(), unit())
		} else {
			args = append(args, "BYBOX", length(), length(), unit())
		}
		return args
	}
	name := pick(r, "GEOADD", "GEOADD", "GEOADD", "GEOADD", "GEOADD", "GEODIST", "GEOPOS", "GEOHASH", "GEOSEARCH", "GEOSEARCH",
		"GEOSEARCH", "GEOSEARCHSTORE", "GEORADIUS", "GEORADIUS_RO", "GEORADIUSBYMEMBER", "GEORADIUSBYMEMBER_RO", "ZRANGE",
		"ZREM", "DEL", "ZADD")
	args := []string{name, key()}
	switch name {
	case "GEOADD":
		for range r.IntN(2) {
			args = append(args, pick(r, "NX", "XX", "CH", "ch"))
		}
		for range 1 + r.IntN(3) {
			args = append(append(args, point()...), member())
		}
	case "GEODIST":
		if args = append(args, member(), member()); r.IntN(2) == 0 {
			args = append(args, unit())
		}
	case "GEOPOS", "GEOHASH", "ZREM":
		for range r.IntN(4) {
			args = append(args, member())
		}
	case "GEOSEARCH":
		args = options(append(args, area()...), false)
	case "GEOSEARCHSTORE":
		if args = options(append(append(args, key()), area()...), false); r.IntN(3) == 0 {
			args = append(args, "STOREDIST")
		}
	case "GEORADIUS", "GEORADIUS_RO":
		args = options(append(append(args, point()...), length(), unit()), name == "GEORADIUS" || r.IntN(20) == 0)
	case "GEORADIUSBYMEMBER", "GEORADIUSBYMEMBER_RO":
		args = options(append(args, member(), length(), unit()), name == "GEORADIUSBYMEMBER" || r.IntN(20) == 0)
	case "ZRANGE":
		args = append(args, "0", "-1", "WITHSCORES")
	case "ZADD": // any score stands for a place
		args = append(args, pick(r, "0", "1", "4503599627370495", "4503599627370496", strconv.FormatInt(r.Int64N(1<<52), 10)),
			member())
	}
	if r.IntN(30) == 0 {
		args = args[:len(args)-1]
	}
	if r.IntN(40) == 0 {
		args[0] = strings.ToLower(name)
	}
	return args
}

func pick1(r *rand.Rand, from ...float64) float64 { return from[r.IntN(len(from))] }

// A search of many places finds them in the order of Redis. No two are at one place: of those that are equally far
// away, Redis returns any with COUNT.
func TestSearchesAmongManyPlacesFindThoseOfRedis(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	w := newTwins(t, redis(t), "2")
	w.roundsDistances = true
	text := func(f float64) string { return strconv.FormatFloat(f, 'f', 7, 64) }
	for range max(differentialRounds(t)/40, 3) {
		w.compare([]string{"DEL", "g"})
		width := pick1(r, 360, 20, 0.1)
		longitude, latitude := (r.Float64()-0.5)*(360-width), (r.Float64()-0.5)*(170-width*170/360)
		near := func() (longitudeText, latitudeText string) {
			return text(longitude + (r.Float64()-0.5)*width), text(latitude + (r.Float64()-0.5)*width*170/360)
		}
		for range 300 {
			x, y := near()
			w.compare([]string{"GEOADD", "g", x, y, x + y})
		}
		for range 20 {
			x, y := near()
			length := func() string { return text(r.Float64() * width * 111_000) }
			args := []string{"GEOSEARCH", "g", "FROMLONLAT", x, y, "BYRADIUS", length(), "m"}
			if r.IntN(2) == 0 {
				args = []string{"GEOSEARCH", "g", "FROMLONLAT", x, y, "BYBOX", length(), length(), "m"}
			}
			w.compare(args, slices.Concat(args, []string{"WITHDIST", "WITHHASH", "WITHCOORD", "COUNT", "17"}),
				slices.Concat(args, []string{"COUNT", "11", "ANY"}), slices.Concat(args, []string{"DESC"}),
				slices.Concat([]string{"GEOSEARCHSTORE", "s"}, args[1:], []string{"STOREDIST"}),
				[]string{"ZRANGE", "s", "0", "-1", "WITHSCORES"})
		}
	}
}
