import assert from "node:assert/strict"
import { test } from "node:test"
import { slug } from "../src/slug.js"

test("joins words", () => assert.equal(slug("Hello big World"), "hello-big-world"))
test("keeps numbers", () => assert.equal(slug("Top 10 tips"), "top-10-tips"))
test("accents become plain letters", () => assert.equal(slug("Café Noir"), "cafe-noir"))
test("no dash at the ends", () => assert.equal(slug("(Draft) notes!"), "draft-notes"))
