"""The frame of every RPC: who calls, what an error becomes, one log line.

One gRPC interceptor does all of it (`calls.CallInterceptor`), since each layer costs every call 3 to 8 microseconds.
"""
