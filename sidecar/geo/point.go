// Package geo has the places of geospatial indexes as Redis has them, bit for bit: the score of a member is a cell of a
// grid on the earth, and what a search returns follows from the cells around its center. It is pure.
package geo

import "math"

// The places that Redis can store: the poles are not among them.
const (
	MaxLongitude = 180
	MaxLatitude  = 85.05112878
)

// Point is a place, in degrees.
type Point struct{ Longitude, Latitude float64 }

// IsValid reports whether the place can be stored.
func (p Point) IsValid() bool {
	return !(p.Longitude < -MaxLongitude || p.Longitude > MaxLongitude ||
		p.Latitude < -MaxLatitude || p.Latitude > MaxLatitude)
}

// Score returns the score of a member at a place.
func Score(p Point) float64 { return float64(cellAt(p, maxSteps, MaxLatitude).score()) }

// At returns the place that a score stands for: the center of its cell. As in Redis, any score stands for one.
func At(score float64) Point {
	c := cellOf(bitsOf(score), maxSteps)
	west, east := c.longitudes()
	south, north := c.latitudes()
	return Point{
		Longitude: min(max((west+east)/2, -MaxLongitude), MaxLongitude),
		Latitude:  min(max((south+north)/2, -MaxLatitude), MaxLatitude),
	}
}

// bitsOf returns the integer part of a score as processors convert it for Redis, also where C leaves it open.
func bitsOf(score float64) uint64 {
	const half = 1 << 63
	switch {
	case score < -half:
		return half
	case score < half:
		return uint64(int64(score))
	case score < 2*half:
		return uint64(int64(score-half)) + half
	}
	return 0
}

// hashDigits are the digits of geohashes.
const hashDigits = "0123456789bcdefghjkmnpqrstuvwxyz"

// Hash returns the usual geohash of a place, of 11 digits. A score has bits for 10 of them.
func Hash(p Point) string {
	bits := cellAt(p, maxSteps, 90).score()
	var digits [11]byte
	for i := range 10 {
		digits[i] = hashDigits[bits>>(2*maxSteps-5*(i+1))&31]
	}
	digits[10] = hashDigits[0]
	return string(digits[:])
}

// Distance returns how far two places are apart on a sphere, in meters.
func Distance(a, b Point) float64 {
	v := sin((radians(b.Longitude) - radians(a.Longitude)) / 2)
	if v == 0 {
		return alongMeridian(a.Latitude, b.Latitude)
	}
	u := sin((radians(b.Latitude) - radians(a.Latitude)) / 2)
	// The conversions keep compilers from adding without rounding the product first.
	square := float64(u*u) + float64(cos(radians(a.Latitude))*cos(radians(b.Latitude))*v*v)
	return 2 * earthRadius * asin(math.Sqrt(square))
}

// alongMeridian returns how far two places of one longitude are apart.
func alongMeridian(a, b float64) float64 { return earthRadius * math.Abs(radians(b)-radians(a)) }

// earthRadius is the one of Redis, in meters.
const earthRadius = 6372797.560856

// degree is an angle in radians, rounded as in C.
const degree = float64(math.Pi) / 180

func radians(degrees float64) float64 { return float64(degrees * degree) }
