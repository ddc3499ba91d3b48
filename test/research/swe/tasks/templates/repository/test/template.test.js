import assert from "node:assert/strict"
import { test } from "node:test"
import { comment } from "../src/page.js"
import { render } from "../src/template.js"

test("fills in names", () => assert.equal(render("Hi {{name}}!", { name: "Ada" }), "Hi Ada!"))
test("text without names", () => assert.equal(render("{ {x} }", {}), "{ {x} }"))
test("escapes values", () => assert.equal(comment("a&b", "<script>"), "<p><b>a&amp;b</b>: &lt;script&gt;</p>"))
test("three braces are raw", () => assert.equal(render("{{{html}}}", { html: "<i>" }), "<i>"))
test("what is missing is empty", () => assert.equal(render("[{{x}}]", {}), "[]"))
test("the helper stands alone", async () => assert.equal((await import("../src/escape.js")).escape(`"'`), "&quot;&#39;"))
