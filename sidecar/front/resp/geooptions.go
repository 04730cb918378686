package resp

// parse parses the arguments of a search.
func (s *geoSearch) parse(args [][]byte) error {
	rest := args[s.source+1:]
	if s.storing {
		s.store = args[1]
	}
	if s.isRadius {
		var err error
		if rest, err = s.parseRadius(rest); err != nil {
			return err
		}
	}
	for len(rest) > 0 {
		n, err := s.parseOption(rest)
		if err != nil {
			return err
		}
		rest = rest[n:]
	}
	return s.check(string(args[0]))
}

// parseRadius parses the center and the radius of GEORADIUS and its kind, and returns what follows. Of a missing key,
// Redis looks at neither if the center is a member.
func (s *geoSearch) parseRadius(args [][]byte) (rest [][]byte, err error) {
	switch {
	case s.byMember && s.set == nil:
		return args[3:], nil
	case s.byMember:
		err, rest = s.centerAt(args[0]), args[1:]
	default:
		s.shape.Center, err = parsePoint(args)
		rest = args[2:]
	}
	if err == nil {
		err = s.parseCircle(rest)
	}
	return rest[2:], err
}

// centerAt makes a member the center.
func (s *geoSearch) centerAt(member []byte) error {
	if s.set == nil {
		return nil
	}
	p, ok := pointOf(s.set, member)
	if !ok {
		return errDecodeMember
	}
	s.shape.Center = p
	return nil
}

func (s *geoSearch) parseCircle(args [][]byte) error {
	radius, ok := parseScore(args[0])
	switch {
	case !ok:
		return errRadius
	case radius < 0:
		return errRadiusBelow0
	}
	unit, err := parseUnit(args[1])
	s.unit, s.shape.Radius, s.shape.IsBox = unit, radius*unit, false
	return err
}

func (s *geoSearch) parseBox(args [][]byte) error {
	width, ok := parseScore(args[0])
	if !ok {
		return errWidth
	}
	height, ok := parseScore(args[1])
	switch {
	case !ok:
		return errHeight
	case width < 0 || height < 0:
		return errBoxBelow0
	}
	unit, err := parseUnit(args[2])
	s.unit, s.shape.Width, s.shape.Height, s.shape.IsBox = unit, width*unit, height*unit, true
	return err
}

// parseOption parses the first of some options, and returns how many arguments it has.
func (s *geoSearch) parseOption(args [][]byte) (n int, err error) {
	word, left := args[0], len(args)-1
	switch {
	case equalFold(word, "withdist"):
		s.withDist = true
	case equalFold(word, "withhash"):
		s.withHash = true
	case equalFold(word, "withcoord"):
		s.withCoord = true
	case equalFold(word, "any"):
		s.any = true
	case equalFold(word, "asc"):
		s.order = 1
	case equalFold(word, "desc"):
		s.order = -1
	case equalFold(word, "count") && left >= 1:
		var ok bool
		if s.count, ok = parseInt(args[1]); !ok {
			return 0, errNotInteger
		}
		if s.count <= 0 {
			return 0, errCountBelow1
		}
		return 2, nil
	case s.canStore && left >= 1 && (equalFold(word, "store") || equalFold(word, "storedist")):
		s.store, s.byDist = args[1], equalFold(word, "storedist")
		return 2, nil
	case s.storing && equalFold(word, "storedist"):
		s.byDist = true
	case !s.isRadius:
		return s.parseArea(args)
	default:
		return 0, errSyntax
	}
	return 1, nil
}

// parseArea parses an option of GEOSEARCH that says where to search.
func (s *geoSearch) parseArea(args [][]byte) (n int, err error) {
	word, left := args[0], len(args)-1
	switch {
	case equalFold(word, "frommember") && left >= 1 && !s.isLocated:
		s.hasFrom = true
		return 2, s.centerAt(args[1])
	case equalFold(word, "fromlonlat") && left >= 2 && !(s.hasFrom && !s.isLocated):
		s.hasFrom, s.isLocated = true, true
		s.shape.Center, err = parsePoint(args[1:])
		return 3, err
	case equalFold(word, "byradius") && left >= 2 && !(s.hasShape && s.shape.IsBox):
		s.hasShape = true
		return 3, s.parseCircle(args[1:])
	case equalFold(word, "bybox") && left >= 3 && !(s.hasShape && !s.shape.IsBox):
		s.hasShape = true
		return 4, s.parseBox(args[1:])
	}
	return 0, errSyntax
}

// check reports what does not fit together.
func (s *geoSearch) check(command string) error {
	switch {
	case s.store != nil && (s.withDist || s.withHash || s.withCoord):
		what := "STORE option in GEORADIUS"
		if s.storing {
			what = "GEOSEARCHSTORE"
		}
		return Errorf("ERR", "%s is not compatible with WITHDIST, WITHHASH and WITHCOORD options", what)
	case !s.isRadius && !s.hasFrom:
		return Errorf("ERR", "exactly one of FROMMEMBER or FROMLONLAT can be specified for %s", cString([]byte(command),
			len(command)))
	case !s.isRadius && !s.hasShape:
		return Errorf("ERR", "exactly one of BYRADIUS and BYBOX can be specified for %s", cString([]byte(command),
			len(command)))
	case s.any && s.count == 0:
		return errAnyNoCount
	}
	return nil
}
