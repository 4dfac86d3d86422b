/*
summary = "All articles, and how many there are"
body    = { _embedded = { articles = "$articles" }, total = "$total" }
*/
-- name: articles :many
select id, title, author, section, published, words, teaser
from article
order by id;

-- name: total :value
select count(*) as total from article;
