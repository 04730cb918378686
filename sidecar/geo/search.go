package geo

import "math"

// Shape is the area of a search: a circle, or a rectangle if Width or Height is given. All is in meters.
type Shape struct {
	Center                Point
	Radius, Width, Height float64
	IsBox                 bool
}

// Range is a range of scores; Max is not in it.
type Range struct{ Min, Max float64 }

// Has reports whether a place is in the area, and how far it is from the center.
func (s *Shape) Has(p Point) (distance float64, ok bool) {
	if s.IsBox {
		if alongMeridian(p.Latitude, s.Center.Latitude) > s.Height/2 ||
			Distance(p, Point{s.Center.Longitude, p.Latitude}) > s.Width/2 {
			return 0, false
		}
		return Distance(s.Center, p), true
	}
	if alongMeridian(p.Latitude, s.Center.Latitude) > s.Radius*(1+1e-9) { // it is quick, and the distance is more
		return 0, false
	}
	distance = Distance(s.Center, p)
	return distance, !(distance > s.Radius)
}

// Ranges returns the scores of places that may be in the area, in the order in which Redis looks for them: those of the
// cell of the center, and of the cells around it.
func (s *Shape) Ranges() []Range {
	b := s.bounds()
	center := cellAt(s.Center, s.steps(), MaxLatitude)
	if center.steps > 1 && !b.areWithin(center) {
		center = cellAt(s.Center, center.steps-1, MaxLatitude)
	}
	ranges := []Range{center.scores()}
	for _, d := range [...]struct{ columns, rows int }{
		{0, 1}, {0, -1}, {1, 0}, {-1, 0}, {1, 1}, {-1, 1}, {1, -1}, {-1, -1},
	} {
		if center.steps >= 2 && b.excludes(center, d.columns, d.rows) {
			continue
		}
		r := center.neighbor(d.columns, d.rows).scores()
		if last := len(ranges) - 1; last > 0 && ranges[last] == r { // a grid of two columns or rows
			continue
		}
		ranges = append(ranges, r)
	}
	return ranges
}

// steps returns how fine a grid is of which a cell and those around it cover the area, mostly.
func (s *Shape) steps() int {
	const halfEquator = 20037726.37
	radius := s.Radius
	if s.IsBox {
		radius = math.Sqrt(float64(s.Width/2*(s.Width/2)) + float64(s.Height/2*(s.Height/2)))
	}
	if radius == 0 {
		return maxSteps
	}
	steps := -1
	for ; radius < halfEquator; radius *= 2 {
		steps++
	}
	switch latitude := math.Abs(s.Center.Latitude); { // meridians are nearer to each other there
	case latitude > 80:
		steps -= 2
	case latitude > 66:
		steps--
	}
	return min(max(steps, 1), maxSteps)
}

// bounds are the degrees between which an area is.
type bounds struct{ west, east, south, north float64 }

func (s *Shape) bounds() bounds {
	height, width := s.Radius, s.Radius
	if s.IsBox {
		height, width = s.Height/2, s.Width/2
	}
	rows := height / earthRadius / degree
	widest := s.Center.Latitude + rows // of the two edges, as Redis has it
	if s.Center.Latitude < 0 {
		widest = s.Center.Latitude - rows
	}
	columns := width / earthRadius / math.Cos(radians(widest)) / degree
	return bounds{s.Center.Longitude - columns, s.Center.Longitude + columns,
		s.Center.Latitude - rows, s.Center.Latitude + rows}
}

// areWithin reports whether a cell and those around it have all of the area.
func (b *bounds) areWithin(c cell) bool {
	_, north := c.neighbor(0, 1).latitudes()
	south, _ := c.neighbor(0, -1).latitudes()
	_, east := c.neighbor(1, 0).longitudes()
	west, _ := c.neighbor(-1, 0).longitudes()
	return !(north < b.north || south > b.south || east < b.east || west > b.west)
}

// excludes reports whether the cell that is some columns and rows from c has nothing of the area, since c reaches
// further.
func (b *bounds) excludes(c cell, columns, rows int) bool {
	south, north := c.latitudes()
	west, east := c.longitudes()
	return rows < 0 && south < b.south || rows > 0 && north > b.north ||
		columns < 0 && west < b.west || columns > 0 && east > b.east
}
