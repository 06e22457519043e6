package CHI::Driver::LmdbFile;

# A driver of CHI over LMDB_File, with the transactions of the driver that the original measured: every operation in a
# read-write transaction of its own, or all of them in one that is committed when asked. That driver is in no
# distribution's packages. Reads may have read-only transactions, which it did not offer.

use strict;
use warnings;

use LMDB_File qw(:envflags :flags :cursor_op);
use Moo;

extends 'CHI::Driver';

has root_dir       => (is => 'ro', required => 1);
has map_size       => (is => 'ro', default  => 50 * 1024 * 1024);
has flags          => (is => 'ro', default  => 0);
has single         => (is => 'ro', default  => 0);
has read_only_gets => (is => 'ro', default  => 0);
has env            => (is => 'lazy');

sub _build_env {
    my ($self) = @_;
    return LMDB::Env->new($self->root_dir, { mapsize => $self->map_size, flags => $self->flags });
}

sub _begin {
    my ($self, $flags) = @_;
    my $transaction = $self->env->BeginTxn($flags);
    # Opened in each transaction, as LMDB_File wants it.
    my $table = $transaction->OpenDB({ flags => $flags ? 0 : MDB_CREATE });
    return [$transaction, $table];
}

sub _within {
    my ($self, $flags, $work) = @_;
    if ($self->single) {
        $self->{open} //= $self->_begin(0);
        return $work->($self->{open}[1]);
    }
    my $open   = $self->_begin($flags);
    my $answer = $work->($open->[1]);
    undef $open->[1];
    $flags ? $open->[0]->abort : $open->[0]->commit;
    return $answer;
}

# Ends the single transaction; the next operation opens another.
sub commit {
    my ($self) = @_;
    my $open = delete $self->{open} or return;
    undef $open->[1];
    $open->[0]->commit;
    return;
}

sub fetch {
    my ($self, $key) = @_;
    my $flags = $self->read_only_gets ? MDB_RDONLY : 0;
    return $self->_within($flags, sub { scalar $_[0]->get($key) });
}

sub store {
    my ($self, $key, $data) = @_;
    $self->_within(0, sub { $_[0]->put($key, $data) });
    return;
}

sub remove {
    my ($self, $key) = @_;
    $self->_within(0, sub { eval { $_[0]->del($key, undef); 1 } });
    return;
}

sub get_keys {
    my ($self) = @_;
    my @keys;
    $self->_within(0, sub {
        my $cursor = $_[0]->Cursor;
        my ($key, $value);
        push @keys, $key while eval { $cursor->get($key, $value, MDB_NEXT); 1 };
    });
    return @keys;
}

sub clear {
    my ($self) = @_;
    $self->remove($_) for $self->get_keys;
    return;
}

sub get_namespaces { return ($_[0]->namespace) }

1;
