package resp

import (
	"math"
	"strconv"
	"strings"

	"github.com/causalstore/causalstore/sidecar/geo"
	"github.com/causalstore/causalstore/sidecar/value"
)

// Commands of geospatial indexes: sorted sets whose scores are places.

// GEOADD key [NX|XX] [CH] longitude latitude member [...]: ZADD of the scores of the places.
func geoAdd(c *connection, args [][]byte) error {
	var o addOptions
	rest := args[2:]
	for ; len(rest) > 0; rest = rest[1:] {
		if word := rest[0]; equalFold(word, "nx") {
			o.nx = true
		} else if equalFold(word, "xx") {
			o.xx = true
		} else if equalFold(word, "ch") {
			o.ch = true
		} else {
			break
		}
	}
	if len(rest)%3 != 0 || len(rest) == 0 || o.nx && o.xx {
		return errSyntax
	}
	pairs := make([][]byte, 0, len(rest)/3*2)
	for ; len(rest) > 0; rest = rest[3:] {
		p, err := parsePoint(rest)
		if err != nil {
			return err
		}
		pairs = append(pairs, strconv.AppendFloat(nil, geo.Score(p), 'f', 0, 64), rest[2])
	}
	return c.addScores(args[1], o, pairs)
}

// parsePoint parses a longitude and a latitude.
func parsePoint(args [][]byte) (geo.Point, error) {
	longitude, ok1 := parseScore(args[0])
	latitude, ok2 := parseScore(args[1])
	if !ok1 || !ok2 {
		return geo.Point{}, errNotFloat
	}
	p := geo.Point{Longitude: longitude, Latitude: latitude}
	if !p.IsValid() {
		return p, Errorf("ERR", "invalid longitude,latitude pair %s,%s", formatFixed(longitude, 6),
			formatFixed(latitude, 6))
	}
	return p, nil
}

// formatFixed writes a number with some digits after the point, as C does.
func formatFixed(f float64, digits int) string {
	switch {
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	return strconv.FormatFloat(f, 'f', digits, 64)
}

// units are those of distances, in meters.
var units = map[string]float64{"m": 1, "km": 1000, "ft": 0.3048, "mi": 1609.34}

var errUnit = genericError("unsupported unit provided. please use M, KM, FT, MI")

func parseUnit(arg []byte) (meters float64, err error) {
	meters, ok := units[strings.ToLower(cString(arg, len(arg)))]
	if !ok {
		return 0, errUnit
	}
	return meters, nil
}

// pointOf returns the place of a member.
func pointOf(h *value.Collection, member []byte) (geo.Point, bool) {
	payload, ok := h.Get(string(member))
	if !ok {
		return geo.Point{}, false
	}
	return geo.At(value.Score(payload)), true
}

// GEOPOS key [member ...]
func geoPos(c *connection, args [][]byte) error {
	return c.eachPoint(args, func(p geo.Point, ok bool) {
		if ok {
			c.writePoint(p)
		} else {
			c.out.writeNullArray()
		}
	})
}

// GEOHASH key [member ...]
func geoHash(c *connection, args [][]byte) error {
	return c.eachPoint(args, func(p geo.Point, ok bool) {
		if ok {
			c.out.writeBulkString(geo.Hash(p))
		} else {
			c.out.writeNull()
		}
	})
}

// eachPoint replies with something for each of some members.
func (c *connection) eachPoint(args [][]byte, write func(p geo.Point, ok bool)) error {
	h, err := c.collectionAt(args[1], value.SortedSet)
	if err != nil {
		return err
	}
	c.out.writeArrayHeader(len(args) - 2)
	for _, member := range args[2:] {
		write(pointOf(&h, member))
		c.out.flushIfFull()
	}
	return nil
}

func (c *connection) writePoint(p geo.Point) {
	c.out.writeArrayHeader(2)
	c.out.writeDecimal(p.Longitude)
	c.out.writeDecimal(p.Latitude)
}

// GEODIST key member1 member2 [M|KM|FT|MI]
func geoDist(c *connection, args [][]byte) error {
	if len(args) > 5 {
		return errSyntax
	}
	unit := 1.0
	if len(args) == 5 {
		var err error
		if unit, err = parseUnit(args[4]); err != nil {
			return err
		}
	}
	h, err := c.collectionAt(args[1], value.SortedSet)
	if err != nil {
		return err
	}
	a, ok1 := pointOf(&h, args[2])
	b, ok2 := pointOf(&h, args[3])
	if ok1 && ok2 {
		c.writeDistance(geo.Distance(a, b) / unit)
	} else {
		c.out.writeNull()
	}
	return nil
}

func (c *connection) writeDistance(d float64) { c.out.writeBulkString(formatFixed(d, 4)) }
