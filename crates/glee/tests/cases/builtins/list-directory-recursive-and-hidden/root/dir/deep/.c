gamma
