#!/usr/bin/env bash
# certificates.sh FOLDER [NAME...]: makes what tests of tls need: two authorities, and certificates of trainer, a, b and
# each NAME. Further ones of a: expired, not begun yet, of the other authority, without a name, long before and after,
# and with a day that cannot be read. One of the trainer by the other authority, and one with a pattern. A key has mode
# 0600.
set -euo pipefail
folder=$1
mkdir -p "$folder" && cd "$folder"
exec >made.log 2>&1

cat >ca.cnf <<'CONF'
[ca]
default_ca = one
[one]
new_certs_dir = .
database = index
serial = serial
default_md = sha256
policy = any
unique_subject = no
copy_extensions = copy
[any]
commonName = supplied
CONF

authority() # authority NAME
{
    openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1.key"
    openssl req -x509 -new -key "$1.key" -subj "/CN=$1" -days 36500 -out "$1.pem"
}

sign() # sign FILE NAME AUTHORITY FROM TO: a certificate with the DNS name NAME; "-": without any
{
    local names=()
    [ "$2" = - ] || names=(-addext "subjectAltName=DNS:$2")
    : >index
    openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1.key"
    openssl req -new -key "$1.key" -subj "/CN=${2/-/a}" "${names[@]}" -out "$1.csr"
    openssl ca -config ca.cnf -batch -rand_serial -notext -in "$1.csr" -out "$1.pem" -cert "$3.pem" -keyfile "$3.key" \
        -startdate "$4" -enddate "$5"
}

unread() # unread FILE DAY: what a has, but a day that is no day in place of DAY
{
    cp a.key "$1.key"
    {
        echo -----BEGIN CERTIFICATE-----
        openssl x509 -in a.pem -outform DER | LC_ALL=C sed "s/${2}000000Z/${2%1}x000000Z/" | base64
        echo -----END CERTIFICATE-----
    } >"$1.pem"
}

umask 077
authority ca
authority foreign
for name in trainer a b "${@:2}"; do
    sign $name $name ca 20200101000000Z 21000101000000Z
done
sign expired a ca 20000101000000Z 20010101000000Z
sign early a ca 20990101000000Z 21000101000000Z
sign stranger a foreign 20200101000000Z 21000101000000Z
sign nameless - ca 20200101000000Z 21000101000000Z
sign long a ca 20000101000000Z 21000101000000Z
sign wide '*' ca 20200101000000Z 21000101000000Z
sign impostor trainer foreign 20200101000000Z 21000101000000Z
sign pattern '*.site.example' ca 20200101000000Z 21000101000000Z
unread unbegun 200101
unread unended 21000101
