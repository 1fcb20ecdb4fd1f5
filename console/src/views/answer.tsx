/** The page of a link to one question: whoever has it answers, without a credential, and sees nothing else. */
import { useState } from "preact/hooks";
import { api } from "../api";
import { Icon } from "../parts/icon";
import { Loaded } from "../parts/page";
import { useRead } from "../reading";
import { route } from "../route";
import { AnswerForm, Asking } from "../tasks/answer_form";

export function Answer() {
  const token = route.value.rest[0] ?? "";
  const [isAnswered, setAnswered] = useState(false);
  const read = useRead((signal) => api().parks.readAnswerLink({ token }, { signal }), [token]);
  return (
    <main id="main" class="sign-in">
      <div class="card">
        <header class="sign-in-head">
          <Icon name="question" size={28} />
          <h1>Taskyard</h1>
        </header>
        {isAnswered ? (
          <p role="status">Thank you. The question is answered.</p>
        ) : (
          <Loaded from={read}>
            {({ question }) => (
              <div class="stack">
                <Asking question={question} />
                {question && (
                  <AnswerForm
                    question={question}
                    send={(answer) => api().parks.answerByLink({ token, answer })}
                    onAnswered={() => setAnswered(true)}
                  />
                )}
              </div>
            )}
          </Loaded>
        )}
      </div>
    </main>
  );
}
