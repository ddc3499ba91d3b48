/** @param {import("hermes-effect").Plugin.RegisterContext} ctx */
export const register = (ctx) => {
  ctx.registerMiddleware("llm_request", ({ request }) => {
    const extraBody = Object(request["extra_body"])
    const metadata = { ...extraBody.metadata, hermes_middleware_demo: true }
    return {
      request: { ...request, extra_body: { ...extraBody, metadata } },
      source: "middleware-demo",
      reason: "tagged provider request"
    }
  })
}
