// The RAT model on a count table: how often each pattern of labels and verdicts occurs.
//
// One program for every case. The six states of an item are, in this order,
//   1 (R=0, abstained)  2 (R=0, wrong)  3 (R=0, right)  4 (R=1, abstained)  5 (R=1, wrong)  6 (R=1, right)
// and those of a pair of systems on one question are pairs of them. States are the leaves of a tree of yes/no splits
// with a Beta prior each (one system: rho, alpha[0], alpha[1], tau[0], tau[1]); so are the combinations of the judges'
// verdicts in a state. A pattern's probability is the sum over the states that agree with its trusted labels of the
// state's probability times that of the pattern's verdicts in that state; what is missing is summed out. The cost
// depends on the number of patterns, not on the number of items. All probabilities are handled by their logits, so
// that 1e-300 and 1 - 1e-300 are as finite as 0.5. `rat_ray/model/design.py` makes the data.
functions {
  // Entropy in bits of a yes/no variable, given the masses of its two sides; 0 where there is no mass.
  real entropy(real yes, real no) {
    if (yes <= 0 || no <= 0) {
      return 0;
    }
    real p = yes / (yes + no);
    real q = no / (yes + no);
    return -(p * log2(p) + q * log2(q));
  }
  // I(G; R | A), I(G; T | A) and I(G; R, T | A) in bits, from the probabilities of the six states.
  vector information(vector theta) {
    real abstained = (theta[1] + theta[4]) * entropy(theta[1], theta[4]); // R decides G here
    real answered = sum(theta[{2, 3, 5, 6}]) * entropy(theta[6], theta[2] + theta[3] + theta[5]);
    real after_r = (theta[5] + theta[6]) * entropy(theta[6], theta[5]);
    real after_t = (theta[3] + theta[6]) * entropy(theta[6], theta[3]);
    return [abstained + answered - after_r, answered - after_t, abstained + answered]';
  }
  // n items shared out over cells in proportion to their weights: a multinomial, cell by cell.
  array[] int share_out_rng(int n, vector weights) {
    int K = size(weights);
    array[K] int x = rep_array(0, K);
    int left = n;
    real weight = sum(weights);
    for (k in 1 : (K - 1)) {
      if (left > 0 && weights[k] > 0) {
        x[k] = binomial_rng(left, weights[k] < weight ? weights[k] / weight : 1);
        left -= x[k];
      }
      weight -= weights[k];
    }
    x[K] = left;
    return x;
  }
  // (C, 6): the probability of each complete combination of verdicts in each state.
  matrix cells(matrix says_one, matrix says_zero, matrix possible, vector log_one, vector log_zero) {
    int C = rows(possible);
    return possible .* to_matrix(exp(says_one * log_one + says_zero * log_zero), C, 6);
  }
}
data {
  // States
  int<lower=2> S; // 6; for pairs of systems 18 (always the same passages) or 36
  matrix<lower=0, upper=1>[S, S - 1] on_yes; // 1: the state lies on the yes side of the split
  matrix<lower=0, upper=1>[S, S - 1] on_no; // 1: it lies on the no side
  vector<lower=0>[S - 1] prior_yes; // Beta(yes, no) of each split
  vector<lower=0>[S - 1] prior_no;
  int<lower=1> H; // groups of items with state probabilities of their own: strata, or systems that share a judge
  // Items whose labels (and verdicts) lead down the trees on one path: how often each split went either way
  matrix<lower=0>[S - 1, H] known_yes;
  matrix<lower=0>[S - 1, H] known_no;
  // The other patterns
  int<lower=0> P;
  vector<lower=0>[P] n; // items per pattern; real, so that counts above 2^31 fit
  vector<lower=0>[P] n_given; // those of them that calibrate judges only: their labels are given, not modelled
  matrix<lower=0, upper=1>[P, S] agree; // 1: the state agrees with the pattern's r, a and t
  array[P] int<lower=1, upper=H> group;
  // Judges
  int<lower=0> B; // sides: 0 without judges, 1, or 2 for a pair of systems
  array[B, S] int<lower=1, upper=6> side_state; // the side's own state in each state
  int<lower=0> C; // combinations of verdicts with a probability of their own
  int<lower=0> V; // combinations of verdicts in the patterns, missing ones included
  array[B, P] int<lower=1, upper=V> verdicts;
  int<lower=0, upper=1> panel; // 1: combinations are complete, and sums adds them up; 0: C = V
  array[B] matrix<lower=0, upper=1>[panel ? V : 0, C] sums; // 1: the complete combination agrees with the verdicts
  int<lower=0> I; // judges that are independent of the others given the state
  int<lower=0> Q; // other rates: splits of a panel, or verdicts on abstentions
  // Per side, state (slowest) and combination: which rates are said yes and no to. Columns: fpr, tpr, others.
  array[B] matrix<lower=0, upper=1>[6 * C, 2 * I + Q] says_one;
  array[B] matrix<lower=0, upper=1>[6 * C, 2 * I + Q] says_zero;
  array[B] matrix<lower=0, upper=1>[C, 6] possible; // 0: the combination cannot occur in the state
  vector<lower=0>[2 * I + Q] prior_one; // Beta(one, zero) of each rate
  vector<lower=0>[2 * I + Q] prior_zero;
  vector<lower=0>[2 * I + Q] known_one; // how often each rate was said yes and no to, where that is known
  vector<lower=0>[2 * I + Q] known_zero;
  int<lower=0, upper=1> prior_only; // 1: sample the prior
  // Results
  int<lower=1> O; // systems with results of their own
  array[H] int<lower=1, upper=O> output_of;
  vector<lower=0>[H] share_n; // items that the group stands for
  array[O] int<lower=0, upper=1> mixed; // 1: the system has several groups
  int<lower=0> R; // quantities that are ratios of two sums over states
  matrix[R, S] numerator;
  matrix[R, S] denominator;
  int<lower=0, upper=1> informs; // 1: information about G, of the six states
  int<lower=0> K; // a judge's rates
  array[K] int<lower=1, upper=max(B, 1)> rate_side;
  array[K] int<lower=0, upper=2 * I + Q> rate_parameter; // 0: derived from the panel
  matrix<lower=0, upper=1>[C, K] rate_cells; // combinations in which the verdict is 1
  matrix<lower=0, upper=1>[6, K] rate_states; // states that the rate is about
  int<lower=0> M; // pairs of judges: correlation of their errors within states
  array[M] int<lower=1, upper=max(B, 1)> pair_side;
  matrix<lower=0, upper=1>[C, M] pair_first;
  matrix<lower=0, upper=1>[C, M] pair_second;
  matrix<lower=-1, upper=1>[6, M] pair_sign; // 0 where one of them judges nothing; -1 where one 1 is right, one wrong
  // The share among these items, labelled ones known exactly
  int<lower=0> F;
  array[F] int<lower=1, upper=R> finite_row; // which ratios
  matrix<lower=0>[F > 0 ? S : 0, O] known; // items per state that the labels tell
  int<lower=0> U; // patterns that agree with several states
  matrix<lower=0, upper=1>[U, S] open_agree;
  array[U] int<lower=1, upper=H> open_group;
  array[B, U] int<lower=1, upper=V> open_verdicts;
  array[U] int<lower=0> open_n;
  // Replicated counts
  int<lower=0> L;
  matrix<lower=0, upper=1>[L, S] cell_agree;
  array[L] int<lower=1, upper=H> cell_group;
  array[B, L] int<lower=1, upper=V> cell_verdicts;
  int<lower=0> G; // blocks of cells: the items of a block are drawn anew
  array[G] int<lower=1, upper=L> block_start;
  array[G] int<lower=1, upper=L> block_stop;
  array[G] int<lower=0> block_n;
}
transformed data {
  int given = sum(n_given) > 0;
  // Where the sampler starts, and its units: a posterior of Beta(a, b) has a logit of about log(a / b), with a standard
  // deviation of about sqrt(1 / a + 1 / b).
  matrix[S - 1, H] centre;
  matrix[S - 1, H] scale;
  vector[2 * I + Q] rate_centre;
  vector[2 * I + Q] rate_scale;
  for (h in 1 : H) {
    vector[S - 1] yes = prior_yes + (prior_only ? 0 : 1) * known_yes[ : , h];
    vector[S - 1] no = prior_no + (prior_only ? 0 : 1) * known_no[ : , h];
    centre[ : , h] = log(yes ./ no);
    scale[ : , h] = sqrt(1 ./ yes + 1 ./ no);
  }
  {
    vector[2 * I + Q] one = prior_one + (prior_only ? 0 : 1) * known_one;
    vector[2 * I + Q] zero = prior_zero + (prior_only ? 0 : 1) * known_zero;
    rate_centre = log(one ./ zero);
    rate_scale = sqrt(1 ./ one + 1 ./ zero);
  }
  vector[S] ones = rep_vector(1, S);
}
parameters {
  // Logits, less what is known of them from counts alone, in units of how well it is known
  matrix[S - 1, H] x;
  vector[I] x_fpr;
  vector[I] z_above; // a judge is better than chance: tpr = fpr + (1 - fpr) inv_logit(z_above)
  vector[Q] x_rate;
}
transformed parameters {
  matrix[S - 1, H] z = centre + scale .* x; // logits of the splits
  vector[I] z_fpr = rate_centre[1 : I] + rate_scale[1 : I] .* x_fpr;
  vector[Q] z_rate = rate_centre[(2 * I + 1) : ] + rate_scale[(2 * I + 1) : ] .* x_rate;
  vector[2 * I + Q] log_one;
  vector[2 * I + Q] log_zero;
  matrix[S, H] theta; // state probabilities
  real log_prior; // Betas; tpr and fpr: two independent Betas, given that tpr > fpr
  real log_jacobian; // of the logits
  real log_likelihood = 0;
  {
    matrix[S - 1, H] log_yes = log_inv_logit(z);
    matrix[S - 1, H] log_no = log_inv_logit(-z);
    vector[I] log_fpr = log_inv_logit(z_fpr);
    vector[I] log_not_fpr = log_inv_logit(-z_fpr);
    vector[I] log_above = log_inv_logit(z_above);
    vector[I] log_not_above = log_inv_logit(-z_above);
    vector[Q] log_rate = log_inv_logit(z_rate);
    vector[Q] log_not_rate = log_inv_logit(-z_rate);
    theta = exp(on_yes * log_yes + on_no * log_no);
    log_one = append_row(append_row(log_fpr, log_sum_exp(log_fpr, log_not_fpr + log_above)), log_rate);
    log_zero = append_row(append_row(log_not_fpr, log_not_fpr + log_not_above), log_not_rate);
    log_prior = dot_product(prior_one - 1, log_one) + dot_product(prior_zero - 1, log_zero)
                + sum((prior_yes - 1)' * log_yes) + sum((prior_no - 1)' * log_no);
    log_jacobian = sum(log_yes) + sum(log_no) + sum(log_rate) + sum(log_not_rate)
                   + sum(log_fpr) + 2 * sum(log_not_fpr) + sum(log_above) + sum(log_not_above);
    if (prior_only == 0) {
      log_likelihood += sum(known_yes .* log_yes) + sum(known_no .* log_no)
                        + dot_product(known_one, log_one) + dot_product(known_zero, log_zero);
    }
  }
  if (prior_only == 0 && P > 0) {
    matrix[P, S] joint = H == 1 ? agree : agree .* (theta')[group];
    vector[S] weight = H == 1 ? theta[ : , 1] : ones;
    if (given) {
      log_likelihood -= dot_product(n_given, log(joint * weight));
    }
    for (b in 1 : B) {
      matrix[C, 6] cell = cells(says_one[b], says_zero[b], possible[b], log_one, log_zero);
      matrix[V, 6] like = panel ? sums[b] * cell : cell;
      joint = joint .* like[verdicts[b], side_state[b]];
    }
    log_likelihood += dot_product(n, log(joint * weight));
  }
}
model {
  target += log_prior + log_jacobian + log_likelihood;
}
generated quantities {
  matrix[R, O] ratio;
  matrix[informs ? 3 : 0, O] bits;
  matrix[K, O] rate;
  matrix[M, O] correlation;
  matrix[F, O] finite;
  array[L] int replicated;
  {
    matrix[S, O] system = rep_matrix(0, S, O);
    array[B] matrix[V, 6] like;
    array[B] matrix[C, 6] cell;
    for (h in 1 : H) {
      // A stratum's share of new questions is not known exactly either: Dirichlet(items), by independent gammas.
      if (mixed[output_of[h]] == 0) {
        system[ : , output_of[h]] = theta[ : , h];
      } else if (share_n[h] > 0) {
        system[ : , output_of[h]] += gamma_rng(share_n[h], 1) * theta[ : , h];
      }
    }
    for (b in 1 : B) {
      cell[b] = cells(says_one[b], says_zero[b], possible[b], log_one, log_zero);
      like[b] = panel ? sums[b] * cell[b] : cell[b];
    }
    for (o in 1 : O) {
      system[ : , o] /= sum(system[ : , o]);
      ratio[ : , o] = (numerator * system[ : , o]) ./ (denominator * system[ : , o]);
      if (informs) {
        bits[ : , o] = information(system[ : , o]);
      }
      array[B] vector[6] side = rep_array(rep_vector(0, 6), B);
      for (b in 1 : B) {
        for (s in 1 : S) {
          side[b, side_state[b, s]] += system[s, o];
        }
      }
      for (k in 1 : K) {
        if (rate_parameter[k] > 0) {
          rate[k, o] = exp(log_one[rate_parameter[k]]);
        } else {
          vector[6] w = rate_states[ : , k] .* side[rate_side[k]];
          rate[k, o] = rate_cells[ : , k]' * cell[rate_side[k]] * w / sum(w);
        }
      }
      for (m in 1 : M) {
        vector[6] w = side[pair_side[m]];
        vector[6] one = (pair_first[ : , m]' * cell[pair_side[m]])';
        vector[6] two = (pair_second[ : , m]' * cell[pair_side[m]])';
        vector[6] both = ((pair_first[ : , m] .* pair_second[ : , m])' * cell[pair_side[m]])';
        vector[6] sign = pair_sign[ : , m];
        vector[6] judged = square(sign) .* w;
        correlation[m, o] = dot_product(sign .* w, both - one .* two)
                            / sqrt(dot_product(judged, one .* (1 - one)) * dot_product(judged, two .* (1 - two)));
      }
    }
    if (F > 0) {
      matrix[S, O] items = known;
      for (u in 1 : U) {
        vector[S] w = open_agree[u]' .* theta[ : , open_group[u]];
        for (b in 1 : B) {
          w = w .* like[b][open_verdicts[b, u], side_state[b]]';
        }
        items[ : , output_of[open_group[u]]] += to_vector(share_out_rng(open_n[u], w));
      }
      for (o in 1 : O) {
        finite[ : , o] = (numerator[finite_row] * items[ : , o]) ./ (denominator[finite_row] * items[ : , o]);
      }
    }
    if (L > 0) {
      matrix[L, S] joint = cell_agree .* (theta')[cell_group];
      for (b in 1 : B) {
        joint = joint .* like[b][cell_verdicts[b], side_state[b]];
      }
      vector[L] w = joint * ones;
      for (g in 1 : G) {
        int first = block_start[g];
        int last = block_stop[g];
        replicated[first : last] = share_out_rng(block_n[g], w[first : last]);
      }
    }
  }
}
