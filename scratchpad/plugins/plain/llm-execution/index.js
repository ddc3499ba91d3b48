/** @param {import("hermes-effect").Plugin.RegisterContext} ctx */
export const register = (ctx) => {
  ctx.registerMiddleware("llm_execution", async ({ next_call, request }) => {
    const started = performance.now()
    const response = await next_call(request)
    console.log(`llm_execution elapsed_ms=${Math.trunc(performance.now() - started)}`)
    return response
  })
}
