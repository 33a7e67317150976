#!/bin/bash
# Healthy is a mongod that is the primary of its replica set; the first time this is asked, it makes it one.
#
# mongosh takes a second of CPU each time, so after its first yes an open port is enough: the only member of a set is
# its primary whenever it runs. A new container asks again.
set -euo pipefail
asked=/tmp/hivemem-primary

if [[ -e $asked ]]; then
    exec 3<> /dev/tcp/127.0.0.1/27017
    exit 0
fi
mongosh --quiet --norc --eval '
    try { rs.status() } catch (error) {
        if (error.codeName !== "NotYetInitialized") throw error
        rs.initiate({ _id: "rs0", members: [{ _id: 0, host: "mongo:27017" }] })
    }
    quit(db.hello().isWritablePrimary ? 0 : 1)'
touch "$asked"
