package causal

// ScanPlaces remembers where scans continue, under numbers that are small enough for the cursors that clients have: the
// place itself may be a key. Whoever knows the number, at whatever sidecar, continues there. The oldest are forgotten.
// The zero ScanPlaces remembers nothing yet; Start says from which number on it counts.
type ScanPlaces struct {
	// Start makes a number of an earlier life of the part be another place's with little likelihood.
	Start uint64

	places       map[uint64]string
	first, after uint64 // the numbers in places, before they are made short
	bytes        int
}

const (
	// ScanPlaceBits is how many bits a number has.
	ScanPlaceBits = 25
	// ScanPlaceSpread, times the number of a life, is a good Start.
	ScanPlaceSpread = 0x9E3779B97F4A7C15
	// maxScanPlaces and maxScanPlaceBytes bound what is remembered. A scan takes a place for each page.
	maxScanPlaces, maxScanPlaceBytes = 4096, 8 << 20
)

// short returns the number of a place, which is not 0.
func (p *ScanPlaces) short(n uint64) uint64 { return 1 + (p.Start+n)%(1<<ScanPlaceBits-1) }

// Add remembers a place and returns its number.
func (p *ScanPlaces) Add(place string) uint64 {
	if p.places == nil {
		p.places = map[uint64]string{}
	}
	number := p.short(p.after)
	p.after++
	p.places[number] = place
	p.bytes += len(place)
	for p.after-p.first > maxScanPlaces || p.bytes > maxScanPlaceBytes {
		oldest := p.short(p.first)
		p.first++
		p.bytes -= len(p.places[oldest])
		delete(p.places, oldest)
	}
	return number
}

// Find returns the place of a number.
func (p *ScanPlaces) Find(number uint64) (string, bool) {
	place, ok := p.places[number]
	return place, ok
}
