package geo

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The values are those that Redis replies.
func TestPlacesHaveTheScoresOfRedis(t *testing.T) {
	palermo, catania := Point{13.361389, 38.115556}, Point{15.087269, 37.502669}
	if got := Score(palermo); got != 3479099956230698 {
		t.Errorf("the score of Palermo is %v", got)
	}
	if got := Hash(At(Score(catania))); got != "sqdtr74hyu0" {
		t.Errorf("the geohash of Catania is %q", got)
	}
	if got := Distance(At(Score(palermo)), At(Score(catania))); got != 166274.15156960033 {
		t.Errorf("they are %v m apart", got)
	}
}

func TestAScoreStandsForAPlaceInItsCell(t *testing.T) {
	for range 10_000 {
		p := Point{(rand.Float64()*2 - 1) * MaxLongitude, (rand.Float64()*2 - 1) * MaxLatitude}
		if back := At(Score(p)); Score(back) != Score(p) || Distance(p, back) > 1 {
			t.Fatalf("%v is stored as %v", p, back)
		}
	}
}

// What a search has to return is in the cells that it looks at, up to a quarter of the way around the earth and away
// from the edges of the grid, behind which Redis does not always look.
func TestASearchLooksWhereSomethingIs(t *testing.T) {
	for range 20_000 {
		s := Shape{Center: Point{(rand.Float64()*2 - 1) * 90, (rand.Float64()*2 - 1) * 60},
			Radius: math.Exp(rand.Float64() * 14)}
		if rand.IntN(2) == 0 {
			s.IsBox, s.Width, s.Height = true, s.Radius, s.Radius*rand.Float64()
		}
		degrees := s.Radius / 111_000
		p := At(Score(Point{s.Center.Longitude + (rand.Float64()*2-1)*degrees*2,
			min(max(s.Center.Latitude+(rand.Float64()*2-1)*degrees, -85), 85)}))
		score, covered := Score(p), false
		for _, r := range s.Ranges() {
			covered = covered || r.Min <= score && score < r.Max
		}
		if _, ok := s.Has(p); ok && !covered {
			t.Fatalf("%+v has %v, and does not look there", s, p)
		}
	}
}

// The functions of Go are wrong by few digits.
func TestSinesAreThoseOfGoButForTheLastDigits(t *testing.T) {
	for range 10_000 {
		x, y := (rand.Float64()*2-1)*maxAngle, rand.Float64()*2-1
		for _, f := range []struct{ got, want float64 }{
			{sin(x), math.Sin(x)}, {cos(x), math.Cos(x)}, {asin(y), math.Asin(y)}, {sin(1e6 * x), math.Sin(1e6 * x)},
		} {
			if math.Abs(f.got-f.want) > 1e-14 {
				t.Fatalf("of %v and %v: %v, want %v", x, y, f.got, f.want)
			}
		}
	}
	if sin(0) != 0 || cos(0) != 1 || asin(1) != math.Pi/2 || !math.IsNaN(asin(1.1)) {
		t.Error("sin 0, cos 0, arcsin 1 or arcsin 1.1 is wrong")
	}
}
