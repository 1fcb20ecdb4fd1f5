from .simulator import Simulation


def test_x():
    import time

    for seed in range(10):
        t = time.time()
        s = Simulation(seed)
        s.run(2000)
        print(seed, time.time() - t)
