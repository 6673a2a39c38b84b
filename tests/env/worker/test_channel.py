"""Messages between a vector env and its workers."""

from argosy.env.worker.channel import Channel


def test_a_message_goes_in_one_piece():
    ours, theirs = Channel.pair()
    sent = []

    class Counting:
        def send(self, part):
            sent.append(len(part))
            return sock.send(part)

    sock, ours._sock = ours._sock, Counting()
    ours.send(b"S", 3, 1, b"12345")  # in two, Ctrl-C could leave a header without what belongs to it
    assert len(sent) == 1
    assert theirs.recv() == (b"S", 3, 1, b"12345")
    sock.close()
    theirs.close()
