package load

import "math/rand/v2"

// Distribution is how the accesses are distributed over the keys of a workload.
type Distribution string

// The distributions.
const (
	// Even: all keys alike.
	Even Distribution = "uniform"
	// Zipfian: the key of rank i has a probability proportional to 1/i^exponent; ranks are scattered over the keys.
	Zipfian Distribution = "zipfian"
	// Scrambled is YCSB's scrambled zipfian: a hash maps ten thousand million ranks to the keys. This flattens the
	// distribution: with exponent 0.99 the most popular key gets about 4 %, however few keys there are.
	Scrambled Distribution = "scrambled"
	// Latest is YCSB's: zipfian from the newest key to the oldest.
	Latest Distribution = "latest"
)

const (
	scrambledItems = 10_000_000_000
	// scrambledTries bounds the search for an existing key; after that, any key is taken.
	scrambledTries = 1000
)

// drawKey draws a key by the distribution of a workload.
func (k *keyspace) drawKey(d Distribution, r *rand.Rand) int {
	if key, ok := k.hot.draw(r); ok {
		return key
	}
	there := k.there()
	switch d {
	case Zipfian: // over the initial keys
		return scatter(int(k.zipf.Rank(r)), k.shared)
	case Scrambled:
		// Over all keys that inserts may add, so that the popular keys stay the same when keys are added.
		for range scrambledTries {
			if key := int(fnv64(k.zipf.Rank(r)) % uint64(k.limit)); key < there {
				return key
			}
		}
	case Latest:
		now := k.zipf.sized(min(there, k.limit))
		return (there - 1 - int(now.Rank(r))) % k.limit
	}
	return r.IntN(min(there, k.limit))
}
