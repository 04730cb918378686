package resp

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/geo"
	"github.com/causalstore/causalstore/sidecar/value"
)

var (
	errDecodeMember = genericError("could not decode requested zset member")
	errRadius       = genericError("need numeric radius")
	errRadiusBelow0 = genericError("radius cannot be negative")
	errWidth        = genericError("need numeric width")
	errHeight       = genericError("need numeric height")
	errBoxBelow0    = genericError("height or width cannot be negative")
	errCountBelow1  = genericError("COUNT must be > 0")
	errAnyNoCount   = genericError("the ANY argument requires COUNT argument")
)

// geoForm is how a command names what it searches.
type geoForm struct {
	source   int  // the argument that is the key
	isRadius bool // GEORADIUS and its kind: the center and the radius are arguments at fixed places
	byMember bool // then the center is a member
	canStore bool // GEORADIUS with STORE
	storing  bool // GEOSEARCHSTORE
}

// geoSearch is a search, as its arguments say.
type geoSearch struct {
	geoForm
	set     *value.Collection // nil: the key is missing
	shape   geo.Shape
	unit    float64
	store   []byte // the key of the result; nil: it is the reply
	byDist  bool   // what is stored are the distances
	hasFrom bool
	// isLocated says that the center was given by coordinates.
	isLocated           bool
	hasShape            bool
	withCoord, withDist bool
	withHash            bool
	order               int // 1: the nearest first; -1: the farthest first
	count               int64
	any                 bool
}

// GEOSEARCH key FROMMEMBER member|FROMLONLAT longitude latitude BYRADIUS radius unit|BYBOX width height unit
// [ASC|DESC] [COUNT count [ANY]] [WITHCOORD] [WITHDIST] [WITHHASH]
func geoSearchKey(c *connection, args [][]byte) error {
	return c.searchPlaces(args, geoForm{source: 1})
}

// GEOSEARCHSTORE destination source ... [STOREDIST]
func geoSearchStore(c *connection, args [][]byte) error {
	return c.searchPlaces(args, geoForm{source: 2, storing: true})
}

// GEORADIUS key longitude latitude radius unit [options of GEOSEARCH] [STORE key] [STOREDIST key]
func geoRadius(c *connection, args [][]byte) error {
	return c.searchPlaces(args, geoForm{source: 1, isRadius: true, canStore: true})
}

// GEORADIUS_RO
func geoRadiusRO(c *connection, args [][]byte) error {
	return c.searchPlaces(args, geoForm{source: 1, isRadius: true})
}

// GEORADIUSBYMEMBER key member radius unit [options of GEORADIUS]
func geoRadiusByMember(c *connection, args [][]byte) error {
	return c.searchPlaces(args, geoForm{source: 1, isRadius: true, byMember: true, canStore: true})
}

// GEORADIUSBYMEMBER_RO
func geoRadiusByMemberRO(c *connection, args [][]byte) error {
	return c.searchPlaces(args, geoForm{source: 1, isRadius: true, byMember: true})
}

// searchPlaces executes a search. Redis reads the key before it looks at the arguments, some of which may be members of
// it; but what is stored is read together with the key under which it is stored, so the arguments are parsed twice.
func (c *connection) searchPlaces(args [][]byte, form geoForm) error {
	first := geoSearch{geoForm: form}
	if err := first.parse(args); err == nil && first.store != nil {
		return c.storePlaces(args, form, first.store)
	}
	h, err := c.collectionAt(args[form.source], value.SortedSet)
	if err != nil {
		return err
	}
	s := geoSearch{geoForm: form}
	if h.Len() > 0 {
		s.set = &h
	}
	if err := s.parse(args); err != nil {
		return err
	}
	c.writePlaces(&s, s.find())
	return nil
}

func (c *connection) storePlaces(args [][]byte, form geoForm, to []byte) error {
	stored := 0
	names := storageKeys(c.database, []string{string(to), string(args[form.source])})
	err := c.changeKeys(names, func(ds []*draft) error {
		h, err := c.collectionIn(ds[1].current(), value.SortedSet)
		if err != nil {
			return err
		}
		s := geoSearch{geoForm: form}
		if h.Len() > 0 {
			s.set = &h
		}
		if err := s.parse(args); err != nil {
			return err
		}
		members := s.members()
		stored = len(members)
		return c.storeMembers(ds[0], members)
	})
	if err != nil {
		return err
	}
	c.out.writeInteger(int64(stored))
	return nil
}

// found is a member that a search has found.
type found struct {
	scored
	point    geo.Point
	distance float64 // in meters
}

// find returns the members that are in the area, in the order of the reply.
func (s *geoSearch) find() []found {
	if s.set == nil {
		return nil
	}
	all := s.findAll(inOrder(s.set.All()))
	order := s.order
	if s.count > 0 && order == 0 && !s.any {
		order = 1
	}
	if order != 0 {
		slices.SortStableFunc(all, func(a, b found) int {
			switch {
			case a.distance > b.distance:
				return order
			case a.distance == b.distance:
				return 0
			}
			return -order
		})
	}
	if s.count > 0 {
		all = all[:min(s.count, int64(len(all)))]
	}
	return all
}

// findAll returns the members that are in the area, or as many as are wanted of any, in the order in which Redis finds
// them.
func (s *geoSearch) findAll(members []scored) (all []found) {
	for _, r := range s.shape.Ranges() {
		from, _ := slices.BinarySearchFunc(members, r.Min, func(m scored, score float64) int {
			if m.score < score {
				return -1
			}
			return 1
		})
		for _, m := range members[from:] {
			if m.score >= r.Max {
				break
			}
			if s.any && int64(len(all)) >= s.count {
				return all
			}
			p := geo.At(m.score)
			if d, ok := s.shape.Has(p); ok {
				all = append(all, found{m, p, d})
			}
		}
	}
	return all
}

// members returns what is stored.
func (s *geoSearch) members() []scored {
	all := s.find()
	members := make([]scored, 0, len(all))
	for _, f := range all {
		if s.byDist {
			f.score = f.distance / s.unit
		}
		members = append(members, f.scored)
	}
	return members
}

// writePlaces writes what was found: names, or arrays if something else of the members is wanted.
func (c *connection) writePlaces(s *geoSearch, all []found) {
	fields := 1 + int(oneIf(s.withDist)+oneIf(s.withHash)+oneIf(s.withCoord))
	c.out.writeArrayHeader(len(all))
	for _, f := range all {
		if fields > 1 {
			c.out.writeArrayHeader(fields)
		}
		c.out.writeBulkString(f.name)
		if s.withDist {
			c.writeDistance(f.distance / s.unit)
		}
		if s.withHash {
			c.out.writeInteger(int64(f.score))
		}
		if s.withCoord {
			c.writePoint(f.point)
		}
		c.out.flushIfFull()
	}
}
