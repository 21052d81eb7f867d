module github.com/reprise-tt/reprise

go 1.26
