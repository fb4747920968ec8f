// The RAT model on a count table: how often each pattern of labels and verdicts occurs.
//
// Six states, in this order:
//   1 (R=0, abstained)  2 (R=0, wrong)  3 (R=0, right)  4 (R=1, abstained)  5 (R=1, wrong)  6 (R=1, right)
// A pattern's probability is the sum over the states that agree with its trusted labels of the state's probability
// times that of the pattern's verdicts in that state; what is missing is summed out. The cost depends on the number
// of patterns, not on the number of items.
data {
  int<lower=0> P; // patterns
  vector<lower=0>[P] n; // items per pattern; real, so that counts above 2^31 fit
  matrix<lower=0, upper=1>[P, 6] agree; // 1: the state agrees with the pattern's r, a and t
  int<lower=0> J; // judges, independent of each other given the state
  int<lower=0> V; // distinct combinations of verdicts
  array[P] int<lower=1, upper=V> verdicts; // each pattern's combination
  matrix<lower=0, upper=1>[V, J] said_one; // 1: the judge's verdict is 1
  matrix<lower=0, upper=1>[V, J] said_zero; // 1: the judge's verdict is 0 (both 0: no verdict)
  matrix<lower=0, upper=1>[J, 6] is_one; // 1: the variable that the judge labels is 1 in this state
  matrix<lower=0, upper=1>[J, 6] is_zero; // 1: it is 0 (both 0: undefined, T of an abstention)
  int<lower=0> K; // judges of T with verdicts where A is unknown
  matrix<lower=0, upper=1>[J, K] own_rate; // 1: judge j's rate on abstentions is yes_abstained[k]
  // Beta priors, (a, b) each.
  vector<lower=0>[2] prior_rho;
  array[2] vector<lower=0>[2] prior_alpha;
  array[2] vector<lower=0>[2] prior_tau;
  vector<lower=0>[2] prior_tpr;
  vector<lower=0>[2] prior_fpr;
  vector<lower=0>[2] prior_yes_abstained;
  int<lower=0, upper=1> prior_only; // 1: sample the prior
}
transformed data {
  matrix[J, 6] undefined = 1 - is_one - is_zero;
  // A judge of T without a rate of its own on abstentions has verdicts only where A = 0 is known: any rate will do.
  vector[J] any_rate;
  for (j in 1 : J) {
    any_rate[j] = 0.5 * (1 - sum(own_rate[j]));
  }
}
parameters {
  real<lower=0, upper=1> rho; // P(R=1)
  vector<lower=0, upper=1>[2] alpha; // P(A=1 | R=0), P(A=1 | R=1)
  vector<lower=0, upper=1>[2] tau; // P(T=1 | A=0, R=0), P(T=1 | A=0, R=1)
  vector<lower=0, upper=1>[J] fpr; // P(verdict = 1 | variable = 0)
  vector<lower=fpr, upper=1>[J] tpr; // P(verdict = 1 | variable = 1): a judge is better than chance
  vector<lower=0, upper=1>[K] yes_abstained; // P(verdict = 1 | A = 1)
}
transformed parameters {
  vector[6] theta = [(1 - rho) * alpha[1], (1 - rho) * (1 - alpha[1]) * (1 - tau[1]),
                     (1 - rho) * (1 - alpha[1]) * tau[1], rho * alpha[2],
                     rho * (1 - alpha[2]) * (1 - tau[2]), rho * (1 - alpha[2]) * tau[2]]';
}
model {
  rho ~ beta(prior_rho[1], prior_rho[2]);
  for (i in 1 : 2) {
    alpha[i] ~ beta(prior_alpha[i, 1], prior_alpha[i, 2]);
    tau[i] ~ beta(prior_tau[i, 1], prior_tau[i, 2]);
  }
  // Jointly: two independent Betas, given that tpr > fpr.
  fpr ~ beta(prior_fpr[1], prior_fpr[2]);
  tpr ~ beta(prior_tpr[1], prior_tpr[2]);
  yes_abstained ~ beta(prior_yes_abstained[1], prior_yes_abstained[2]);
  if (prior_only == 0) {
    if (J == 0) {
      target += dot_product(n, log(agree * theta));
    } else {
      matrix[J, 6] yes = diag_pre_multiply(tpr, is_one) + diag_pre_multiply(fpr, is_zero)
                         + diag_pre_multiply(any_rate + own_rate * yes_abstained, undefined);
      matrix[V, 6] joint = diag_post_multiply(exp(said_one * log(yes) + said_zero * log1m(yes)), theta);
      target += dot_product(n, log(rows_dot_product(agree, joint[verdicts])));
    }
  }
}
generated quantities {
  real p_t = theta[3] + theta[6]; // an abstention is no success
  real p_a = theta[1] + theta[4];
  real p_g = theta[1] + theta[6];
  real accuracy = p_t / (p_t + theta[2] + theta[5]); // among answered items
  real p_g_r0 = alpha[1];
  real p_g_r1 = (1 - alpha[2]) * tau[2];
  real guess = 1 - alpha[1]; // P(A=0 | R=0)
  real lucky = theta[3]; // P(R=0, A=0, T=1)
}
