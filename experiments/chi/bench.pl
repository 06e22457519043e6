#!/usr/bin/perl
# A cache of CHI: `compute` of every key (a get that misses, then a set), commit, a hot read of every key, close.
#
#   bench.pl STORE RECORDS BYTES
#
# STORE is `fastmmap`, or `lmdb` with settings after colons: `nosync`, `nometasync`, `single`, `read-only-gets`.
# Marks report phases, and a line their time; of groups of ten operations, percentiles of their wall time.

use strict;
use warnings;

use CHI;
use Digest::MD5;
use File::Path qw(make_path);
use FindBin;
use lib "$FindBin::Bin/lib";
use LMDB_File qw(:envflags);
use Time::HiRes qw(clock_gettime sleep CLOCK_MONOTONIC);

use constant SAMPLE => 10;

# The pause after a phase's begin, in which prony reads its counters; `wall` includes the pause, `time` does not.
use constant REST => 0.1;

$| = 1;
my ($store, $records, $bytes) = @ARGV;
die "usage: bench.pl STORE RECORDS BYTES\n" unless defined $bytes;
my ($driver, %setting) = split_store($store);

my $marks;
if (my $path = $ENV{PRONY_MARKS}) {
    open $marks, '>>', $path or die "cannot open `$path`: $!\n";
    $marks->autoflush(1);
}

# Every value exists before the first clock runs; the same ones in every arm.
srand 2014;
my $quads  = int(($bytes + 3) / 4);
my @values = map { substr pack('L*', map { int rand 2**32 } 1 .. $quads), 0, $bytes } 1 .. $records;

my $root = "$ENV{TMPDIR}/cache";
make_path($root);
my $cache = CHI->new(expires_in => '5h', root_dir => $root, cache_size => '50m', arguments());

my $misses = 0;
phase(write => sub {
    sampled(sub {
        my ($number) = @_;
        $cache->compute($number, undef, sub { $misses++; $values[$number] });
    });
});
phase(commit => sub { $cache->commit if $setting{single}; return '' });

my @found = (undef) x $records;
phase(read => sub {
    sampled(sub { $found[$_[0]] = $cache->get($_[0]) });
});

phase(check => sub {
    die "$misses of $records computations missed\n" unless $misses == $records;
    my $hits = grep { defined } @found;
    my $digest = Digest::MD5->new;
    $digest->add(pack('N/a*', $_ // '')) for @found;
    my $same = grep { defined $found[$_] && $found[$_] eq $values[$_] } 0 .. $records - 1;
    die "$hits hits, of which $same are right\n" unless $hits == $same;
    return sprintf 'hits %d digest %s', $hits, $digest->hexdigest;
});
phase(close => sub {
    $cache->commit if $setting{single};
    undef $cache;
    return '';
});

sub split_store {
    my ($driver, @settings) = split /:/, $_[0];
    my %known = map { $_ => 1 } qw(nosync nometasync single read-only-gets);
    $known{$_} or die "unknown setting `$_` of `$_[0]`\n" for @settings;
    return ($driver, map { $_ => 1 } @settings);
}

sub arguments {
    return (driver => 'FastMmap') if $driver eq 'fastmmap';
    my $flags = ($setting{nosync} ? MDB_NOSYNC : 0) | ($setting{nometasync} ? MDB_NOMETASYNC : 0);
    return (
        driver         => 'LmdbFile',
        flags          => $flags,
        single         => $setting{single} // 0,
        read_only_gets => $setting{'read-only-gets'} // 0,
    );
}

# One operation for each record, timed in groups of ten.
sub sampled {
    my ($operation) = @_;
    my @times;
    for (my $from = 0; $from < $records; $from += SAMPLE) {
        my $until = $from + SAMPLE < $records ? $from + SAMPLE : $records;
        my $began = clock_gettime(CLOCK_MONOTONIC);
        $operation->($_) for $from .. $until - 1;
        push @times, clock_gettime(CLOCK_MONOTONIC) - $began;
    }
    @times = sort { $a <=> $b } @times;
    my ($half, $most) = map { 1e6 * $times[int $_ * $#times] / SAMPLE } 0.5, 0.99;
    return sprintf 'operations %d p50 %.3f us p99 %.3f us', $records, $half, $most;
}

# A phase with its marks; how long the work took and what it returns are printed within it.
sub phase {
    my ($name, $work) = @_;
    mark($name, 'begin', clock_gettime(CLOCK_MONOTONIC));
    sleep REST if $marks;
    my $began = clock_gettime(CLOCK_MONOTONIC);
    my $told  = $work->();
    my $ended = clock_gettime(CLOCK_MONOTONIC);
    printf "%s: time %.9f s %s\n", $name, $ended - $began, $told;
    mark($name, 'end', $ended);
    return;
}

sub mark {
    my ($name, $boundary, $at) = @_;
    printf {$marks} qq({"mark":"%s","boundary":"%s","at":%.0f}\n), $name, $boundary, $at * 1e9 if $marks;
    return;
}
