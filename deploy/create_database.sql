-- Run once by the database's container, as its superuser. The service's own role owns one database, no more.
\set password `cat "$ANTECAST_PASSWORD_FILE"`
CREATE ROLE antecast LOGIN PASSWORD :'password';
CREATE DATABASE antecast OWNER antecast;
REVOKE ALL ON DATABASE antecast FROM PUBLIC;
