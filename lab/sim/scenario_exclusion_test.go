package sim

// Exclusions:
//
//	exclude use1      excludes a data center: all nodes receive the new topology at once, but for those that are down, or from which it is withheld
func init() { verbs["exclude"] = (*scenario).exclude }

func (s *scenario) exclude(args []string) (string, error) {
	dc, _, err := s.prepareScaling([]string{args[0], "0"})
	if err != nil {
		return "", err
	}
	s.scaler.exclude(dc)
	return "", nil
}
